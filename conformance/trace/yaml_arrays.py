"""Arrays in a trace file: `{shape: "2 7 24", rows: [...]}`, one string per row of the last axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.trace.exact_numbers import Rows, write_exact
from conformance.trace.yaml_cursor import NAME, Cursor
from conformance.trace.yaml_tree import Tree

MAX_RANK = 8
DTYPES = ("float64", "int64", "int32", "bool")
"""What `dtype` of an array may say; float64 where it is left out."""

RowReader = Callable[[str], list[Any]]


def read_array(
    cursor: Cursor,
    reader: RowReader,
    *,
    shape: tuple[int, ...] | None = None,
    causal: bool = False,
    dtypes: Collection[str] = (),
) -> NDArray[Any]:
    """The array at `cursor`, read-only; `shape` is what its use demands, `dtypes` what `dtype` may say.

    causal: weights [B,H,T,n], whose row t holds only the n - T + t + 1 numbers of the positions that it sees;
    the others are 0. Nothing is allocated before the rows have been counted.
    """
    fields = cursor.fields(("shape", "rows"), ("dtype",) if dtypes else ())
    found = fields["shape"].integers()
    if len(found) > MAX_RANK or any(axis < 0 for axis in found):
        raise fields["shape"].error(f"{found} is no shape: at most {MAX_RANK} axes, none negative")
    if shape is not None and found != shape:
        raise fields["shape"].error(f"the shape is {_text(found)}; here it must be {_text(shape)}")
    if causal and (len(found) != 4 or found[3] < found[2]):
        raise fields["shape"].error("weights have the shape B H T n with n at least T")
    dtype = fields["dtype"].choice(dtypes) if "dtype" in fields else "float64"
    flat = _rows(fields["rows"], found, reader if dtype == "float64" else Rows().integers, causal=causal)
    lowest, highest = _RANGE.get(dtype, (0, 0))
    if dtype in _RANGE and flat and not (lowest <= min(flat) and max(flat) <= highest):
        raise fields["rows"].error(f"a number is beyond {dtype}, which ends at {lowest} and {highest}")
    array: NDArray[Any] = np.array(flat, dtype=dtype).reshape(found)
    array.flags.writeable = False
    return array


_RANGE = {"int64": (-(2**63), 2**63 - 1), "int32": (-(2**31), 2**31 - 1), "bool": (0, 1)}


def _rows(rows: Cursor, shape: tuple[int, ...], reader: RowReader, *, causal: bool) -> list[Any]:
    if not isinstance(rows.value, list):
        raise rows.error("found no list; it must be a list of strings, one per row of the last axis")
    count, width = math.prod(shape[:-1]), shape[-1] if shape else 1
    if len(rows.value) != count:
        raise rows.error(f"{len(rows.value)} rows; the shape {_text(shape)} has {count}")
    flat: list[Any] = []
    for index, row in enumerate(rows.value):
        try:
            numbers = reader(row) if isinstance(row, str) else None
        except ValueError as problem:
            raise rows.parsed.error(str(problem), (*rows.path, index)) from None
        if numbers is None:
            raise rows.parsed.error("found no string; a row is a string of numbers", (*rows.path, index))
        wanted = width - shape[-2] + index % shape[-2] + 1 if causal else width
        if len(numbers) != wanted:
            raise rows.parsed.error(f"{len(numbers)} numbers; this row has {wanted}", (*rows.path, index))
        flat += numbers
        if causal:
            flat += [0.0] * (width - wanted)
    return flat


def write_array(array: Any, *, dtype: bool = False) -> dict[str, Tree]:
    """The tree of an array in exact numbers. Narrower floats are widened, which changes none of them.

    Raises ValueError for an array of anything but numbers, and where `dtype` is not set, for integers.
    """
    given = np.asarray(array)
    whole = given.dtype.kind in "iub"
    if not (whole and dtype) and given.dtype.kind != "f" and given.dtype.name != "bfloat16":
        raise ValueError(f"an array of {given.dtype} cannot be written here")
    tree: dict[str, Tree] = {"shape": _text(given.shape)}
    if whole:
        tree["dtype"] = given.dtype.name if given.dtype.name in DTYPES else "int64"
    numbers = given.ravel().tolist()
    tokens = [str(int(n)) for n in numbers] if whole else [write_exact(float(n)) for n in numbers]
    width = given.shape[-1] if given.ndim else 1
    tree["rows"] = [" ".join(tokens[i * width : (i + 1) * width]) for i in range(math.prod(given.shape[:-1]))]
    return tree


def _text(shape: tuple[int, ...]) -> str:
    return " ".join(map(str, shape))


REFERENCE = rf"({NAME})(?:\[([0-9]{{1,9}}):([0-9]{{1,9}})\])?"
"""`x`, or `x[0:5]` for its rows 0 to 4."""
FIELD_REFERENCE = rf"({NAME})\.([A-Za-z_][A-Za-z0-9_.]*)(?:\[([0-9]{{1,9}}):([0-9]{{1,9}})\])?"
"""`first.output`, or `first.output[0:1]` for its rows 0 to 0."""

TIME_AXIS: Mapping[str, int] = {"rows": 1, "tokens": 1, "logits": 1, "merged": 1}
"""The axis of the positions where it is not axis 2; `output` depends on the level."""


def time_axis(field: str, level: str) -> int:
    """The axis along which an array of that name is sliced."""
    if field == "output":
        return 2 if level == "attention" else 1
    return TIME_AXIS.get(field, 2)


def sliced(array: NDArray[Any], axis: int, start: int, stop: int) -> NDArray[Any]:
    """Rows start to stop - 1 along an axis, a view."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def read_range(cursor: Cursor, start: str | None, stop: str | None, length: int) -> tuple[int, int]:
    """The rows that a reference names of an array with `length` of them, at least one."""
    if start is None or stop is None:
        return 0, length
    if not int(start) < int(stop) <= length:
        raise cursor.error(f"[{start}:{stop}] is no part of [0:{length}]; it must hold at least one row")
    return int(start), int(stop)
