"""How numbers stand in a golden file: inputs exactly, expected values as decimals, arrays row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

_LARGEST_DENOMINATOR = 2**40

Tree = dict[str, Any]
"""What a golden file holds: mappings, lists and strings."""


def input_number(value: Fraction) -> str:
    """An input as `int`, as `p/q` with q a power of two, or as a C99 hex float where q is large.

    Raises ValueError where the value is no float64: an input is the stored number, never a closed form.
    """
    stored = float(value)
    if Fraction(stored) != value:
        raise ValueError(f"{value} is no float64, so it cannot be an input of a golden file")
    if value.denominator > _LARGEST_DENOMINATOR or abs(value.numerator) >= 2**53:
        return stored.hex()
    return str(value)


def array(shape: Sequence[int], rows: Iterable[Iterable[str]]) -> Tree:
    """An array as the format writes it: its shape, and one string for each row of its last axis."""
    return {"shape": " ".join(map(str, shape)), "rows": [" ".join(row) for row in rows]}


def input_array(nested: Any) -> Tree:
    """An array of exact inputs, from nested sequences of any depth."""
    shape, rows = [], [nested]
    while not isinstance(rows[0][0], Fraction):
        shape.append(len(rows[0]))
        rows = [row for group in rows for row in group]
    shape.append(len(rows[0]))
    return array(shape, ([input_number(x) for x in row] for row in rows))
