"""The rules by which golden inputs are made: whole numbers over powers of two, or named float64 numbers.

Small dyadic numbers are exact in every dtype from float64 down to bfloat16 and float16, so that one golden
file serves them all. Everything is a `Fraction`, so that nothing is rounded on the way into a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

Matrix = tuple[tuple[Fraction, ...], ...]
Lanes = tuple[Matrix, ...]


def matrix(height: int, width: int, entry: Callable[[int, int], Fraction | int | float]) -> Matrix:
    """[height, width] with `entry(i, j)` in row i, column j, taken by its exact value."""
    return tuple(tuple(Fraction(entry(i, j)) for j in range(width)) for i in range(height))


def lanes(
    batch: int, rows: int, width: int, entry: Callable[[int, int, int], Fraction | int | float]
) -> Lanes:
    """[batch, rows, width] with `entry(b, t, i)` in lane b, row t, feature i."""
    return tuple(matrix(rows, width, lambda t, i, b=b: entry(b, t, i)) for b in range(batch))  # type: ignore[misc]


def modular_matrix(height: int, width: int, *, a: int, b: int, s: int) -> Matrix:
    """(((a i + b j + s + i j) mod 11) - 5) / 8: unsymmetric, so that a transposed weight shows."""
    return matrix(height, width, lambda i, j: Fraction((a * i + b * j + s + i * j) % 11 - 5, 8))


def modular_rows(batch: int, rows: int, width: int, *, shift: int = 0) -> Lanes:
    """(((5 b + 7 t + 3 i + 2 t i + b t^2 + shift) mod 13) - 6) / 8: lanes differ by more than a constant."""
    return lanes(
        batch, rows, width,
        lambda b, t, i: Fraction((5 * b + 7 * t + 3 * i + 2 * t * i + b * t * t + shift) % 13 - 6, 8),
    )


def identity(size: int) -> Matrix:
    """The identity matrix."""
    return matrix(size, size, lambda i, j: i == j)


def sparse(height: int, width: int, entries: Sequence[tuple[int, int, Fraction | int]]) -> Matrix:
    """Zero but for the (row, column, value) entries."""
    found = {(i, j): value for i, j, value in entries}
    return matrix(height, width, lambda i, j: found.get((i, j), 0))


def padded(original: Matrix, height: int, width: int | None = None) -> Matrix:
    """`original` with rows (and columns, where a width is given) of zeros after its own.

    Zero features of the input meet zero rows of the weights, so no value of the layer changes.
    """
    columns = len(original[0]) if width is None else width
    filled = [row + (Fraction(0),) * (columns - len(row)) for row in original]
    return (*filled, *((Fraction(0),) * columns for _ in range(height - len(original))))
