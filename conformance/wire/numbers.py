"""Numbers and arrays in messages: decimals that round-trip, or the bits themselves."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from conformance.wire.errors import MessageError
from conformance.wire.text import described

Mode = Literal["decimal", "bits"]
FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "-0": -0.0}
"""Numbers that may stand as text in decimal mode, because JSON or a JSON library cannot say them."""

MAX_RANK = 8
MAX_AXIS = 2**40
_TOO_LARGE = 'a number too large for float64 came; an infinity is written "inf" or "-inf"'
_PLAIN = ({float}, {int}, {float, int})


def bits_of(value: float) -> str:
    """The 16 hex digits of a float64, most significant first."""
    return struct.pack(">d", value).hex()


def from_bits(text: str) -> float:
    """The float64 of 16 hex digits. Raises ValueError for anything else."""
    raw = bytes.fromhex(text)
    if len(raw) != 8 or len(text) != 16:
        raise ValueError(text)
    return float(struct.unpack(">d", raw)[0])


_ARRAY = frozenset(("dtype", "shape", "data"))


class Numbers:
    """How numbers stand in the messages of one conversation: `"decimal"` or `"bits"`."""

    def __init__(self, mode: Mode = "decimal") -> None:
        self.mode: Mode = mode

    def number_out(self, value: float) -> float | str:
        """A float64 as it stands in a message."""
        if self.mode == "bits":
            return bits_of(value)
        return value if math.isfinite(value) else _special_name(value)

    def number_in(self, given: Any, place: str) -> float:
        """The float64 that a message holds. Raises MessageError."""
        return float(self._floats([given], place)[0])

    def array_out(self, array: NDArray[Any]) -> dict[str, Any]:
        """An array as it stands in a message. Raises MessageError for a dtype that has no name here."""
        name = _name_of(array.dtype)
        if name in FLOATS:
            data = self._data_out(array if name == "float64" else np.asarray(array, dtype=np.float64))
        elif name in INTEGERS:
            data = array.ravel().tolist()
        else:
            raise MessageError(
                "", f"an array of dtype {name} cannot be sent; {', '.join(FLOATS + INTEGERS)} can"
            )
        return {"dtype": name, "shape": list(array.shape), "data": data}

    def array_in(self, given: Any, place: str) -> NDArray[Any]:
        """The array that a message holds, checked before anything of its claimed size is allocated."""
        if not isinstance(given, dict) or given.keys() != _ARRAY:
            raise MessageError(
                place,
                f'{described(given)} is not an array; write {{"dtype": ..., "shape": [...], "data": [...]}}',
            )
        name, shape, data = given["dtype"], given["shape"], given["data"]
        if name not in FLOATS and name not in INTEGERS:
            raise MessageError(
                f"{place}.dtype", f"{described(name)} is not one of {', '.join(FLOATS + INTEGERS)}"
            )
        if not isinstance(data, list):
            raise MessageError(f"{place}.data", f"{described(data)} is not a flat array of numbers")
        _check_shape(shape, len(data), place)
        flat = (
            self._floats(data, f"{place}.data") if name in FLOATS else _integers(data, name, f"{place}.data")
        )
        return _narrowed(flat, name, f"{place}.data").reshape(shape)

    def _data_out(self, array: NDArray[np.float64]) -> list[Any]:
        if self.mode == "bits":
            return array.astype(">f8").tobytes().hex(" ", 8).split()
        data: list[Any] = array.ravel().tolist()
        if not np.isfinite(array).all():
            return [value if math.isfinite(value) else _special_name(value) for value in data]
        return data

    def _floats(self, data: Sequence[Any], place: str) -> NDArray[np.float64]:
        if self.mode == "bits":
            return _floats_of_bits(data, place)
        if set(map(type, data)) not in _PLAIN:
            data = [_decimal(value, f"{place}[{index}]") for index, value in enumerate(data)]
            return np.array(data, dtype=np.float64)
        try:
            flat = np.array(data, dtype=np.float64)
        except OverflowError:
            pass
        else:
            # No literal says infinity, so one that is here was a number too large.
            if math.inf not in data and -math.inf not in data:
                return flat
        index = next(i for i, value in enumerate(data) if not _fits(value))
        raise MessageError(f"{place}[{index}]", _TOO_LARGE)


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    return dtype.name  # computed anew at every access


def _special_name(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def _fits(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _decimal(given: Any, place: str) -> float:
    if type(given) is str and given in SPECIAL:
        return SPECIAL[given]
    if type(given) in (int, float):
        if not _fits(given):
            raise MessageError(place, _TOO_LARGE)
        return float(given)
    raise MessageError(
        place, f'{described(given)} is not a number, nor one of the texts "nan", "inf", "-inf", "-0"'
    )


def _floats_of_bits(data: Sequence[Any], place: str) -> NDArray[np.float64]:
    try:
        raw = bytes.fromhex("".join(data))
        # fromhex passes over white space, which would move every later number and shorten the whole.
        if len(raw) == 8 * len(data) and set(map(len, data)) <= {16}:
            return np.frombuffer(raw, dtype=">f8").astype(np.float64)
    except (TypeError, ValueError):
        pass
    for index, given in enumerate(data):
        try:
            from_bits(given)
        except (ValueError, TypeError):
            raise MessageError(
                f"{place}[{index}]",
                f'{described(given)} is not 16 hex digits; the hello says "numbers": "bits"',
            ) from None
    raise MessageError(place, "holds something that is not 16 hex digits")


def _integers(data: Sequence[Any], name: str, place: str) -> NDArray[Any]:
    wanted = bool if name == "bool" else int
    if not set(map(type, data)) <= {wanted}:
        index = next(i for i, value in enumerate(data) if type(value) is not wanted)
        raise MessageError(f"{place}[{index}]", f"{described(data[index])} is not a value of dtype {name}")
    try:
        return np.array(data, dtype=name)
    except OverflowError:
        raise MessageError(place, f"a number lies outside the range of {name}") from None


def _narrowed(flat: NDArray[Any], name: str, place: str) -> NDArray[Any]:
    if name == "float64" or name in INTEGERS:
        return flat
    if name == "bfloat16":
        try:
            import ml_dtypes  # noqa: PLC0415 - an extra, needed for this dtype only
        except ImportError:
            return flat.astype(np.float32)
        dtype: Any = ml_dtypes.bfloat16
    else:
        dtype = np.dtype(name)
    with np.errstate(all="ignore"):
        narrow: NDArray[Any] = flat.astype(dtype)
    if not np.array_equal(np.isfinite(narrow.astype(np.float64)), np.isfinite(flat)):
        raise MessageError(place, f"a finite number lies outside the range of {name}")
    return narrow


def _check_shape(shape: Any, elements: int, place: str) -> None:
    fit = type(shape) is list and len(shape) <= MAX_RANK
    for axis in shape if fit else ():
        fit = fit and type(axis) is int and 0 <= axis <= MAX_AXIS
    if not fit:
        raise MessageError(
            f"{place}.shape", f"{described(shape)} is not a list of at most {MAX_RANK} whole numbers from 0"
        )
    wanted = math.prod(shape)
    if wanted != elements:
        raise MessageError(place, f"the shape {shape} asks for {wanted} numbers, data holds {elements}")
    if wanted == 0 and math.prod(max(n, 1) for n in shape) > MAX_AXIS:
        raise MessageError(f"{place}.shape", f"{shape} holds no number but is too large")
