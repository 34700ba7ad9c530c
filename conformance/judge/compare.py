"""Comparing arrays: within a bound, and bit for bit."""

from __future__ import annotations

from math import isfinite, nan, ulp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.judge.findings import Difference

Wide = NDArray[np.float64]
AXES = {3: ("lane", "position", None), 4: ("lane", "head", "position", None)}
"""What stands on the axes of an array: rows of a layer or logits, rows of heads or weights."""

_SMALL = 2**12
_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
"""What numbers of each size are compared as, bit for bit, without copying large arrays."""


def worst(
    field: str,
    observed: NDArray[Any],
    expected: NDArray[Any],
    bound: float | NDArray[Any],
    *,
    first_row: int = 0,
) -> Difference:
    """The element that uses the largest share of its bound; arrays of equal shape, not empty.

    A number that is not finite where a finite one is expected uses an infinite share.
    """
    seen, wanted, limit = _wide(observed), _wide(expected), _wide(bound)
    with np.errstate(all="ignore"):
        gap = np.abs(seen - wanted)
        share = gap / limit
        # The first NaN, else the largest: where that is finite, all are.
        at = int(share.argmax())
        if not isfinite(share.item(at)):
            gap, share = _shares(seen, wanted, gap, limit)
            at = int(share.argmax())
    index = _index(at, share.shape)
    value, difference = float(wanted[index]), gap.item(at)
    spacing = ulp(value) if isfinite(value) else nan
    return Difference(
        field=field,
        index=index,
        expected=value,
        observed=float(seen[index]),
        difference=difference,
        bound=float(limit[index]) if limit.shape == gap.shape else _at(limit, index),
        share=share.item(at),
        ulps=difference / spacing,
        **_place(index, first_row),
    )


def _at(limit: Wide, index: tuple[int, ...]) -> float:
    """The bound that holds at an index: it may be one number, or have axes of length 1."""
    if limit.ndim == 0:
        return float(limit)
    own = index[len(index) - limit.ndim :]
    return float(limit[tuple(min(at, size - 1) for at, size in zip(own, limit.shape, strict=True))])


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element by its number in row-major order."""
    index = []
    for size in reversed(shape):
        flat, at = divmod(flat, size)
        index.append(at)
    return tuple(reversed(index))


def _shares(seen: Wide, wanted: Wide, gap: Wide, limit: Wide) -> tuple[Wide, Wide]:
    """Gap and share where bounds of 0 or numbers that are not finite take part."""
    gap = np.where(np.isnan(gap), np.where(_both_nan(seen, wanted), 0.0, np.inf), gap)
    gap = np.where(seen == wanted, 0.0, gap)
    used = np.where(limit > 0.0, gap / np.where(limit > 0.0, limit, 1.0), np.inf)
    return gap, np.where(gap == 0.0, 0.0, used)


def _wide(given: float | NDArray[Any]) -> Wide:
    return np.asarray(given, dtype=np.float64)


def _both_nan(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(np.isnan(left) & np.isnan(right))


def _place(index: tuple[int, ...], first_row: int) -> dict[str, int | None]:
    place: dict[str, int | None] = {}
    for name, at in zip(AXES.get(len(index), ()), index, strict=False):
        if name is not None:
            place[name] = at + first_row if name == "position" else at
    return place


def same_bits(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """True where shape, dtype and every bit agree; arrays of one shape without elements have no bits."""
    if left.shape != right.shape:
        return False
    if left.size == 0 or left.dtype != right.dtype:
        return left.size == 0
    words = _WORDS.get(left.itemsize) if left.nbytes > _SMALL else None
    if words is None:
        return left.tobytes() == right.tobytes()
    return bool((left.view(words) == right.view(words)).all())


def retyped(observed: NDArray[Any], expected: NDArray[Any]) -> str:
    """What to add to a message where the dtypes differ, and with them every bit."""
    same = observed.dtype == expected.dtype
    return "" if same else f" (they are {observed.dtype} now, and were {expected.dtype})"


def first_bit_difference(
    field: str, observed: NDArray[Any], expected: NDArray[Any], *, first_row: int = 0
) -> Difference:
    """The largest of the elements whose bits differ, as a difference against a bound of 0.

    Arrays of one shape, not empty. Where the dtypes differ, every bit does.
    """
    found = worst(field, observed, expected, 0.0, first_row=first_row)
    if found.difference > 0.0:
        return found
    differs = np.ones(observed.shape, dtype=bool)
    if observed.dtype == expected.dtype:
        left = np.ascontiguousarray(observed).view(np.uint8).reshape(*observed.shape, -1)
        right = np.ascontiguousarray(expected).view(np.uint8).reshape(*expected.shape, -1)
        differs = (left != right).any(axis=-1)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
    return Difference(
        field=field,
        index=index,
        expected=float(expected[index]),
        observed=float(observed[index]),
        difference=0.0,
        bound=0.0,
        share=float("inf"),
        ulps=0.0,
        **_place(index, first_row),
    )
