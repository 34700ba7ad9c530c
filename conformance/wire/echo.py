"""The echo round: numbers that a careless pipe loses, sent and read back before anything is judged."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.wire.errors import MessageError
from conformance.wire.messages import fields_of
from conformance.wire.numbers import Numbers, bits_of
from conformance.wire.text import described

_LARGEST = math.ldexp(2.0 - 2.0**-52, 1023)
_SEVENTEEN_DIGITS = (
    0.1, 1 / 3, 2 / 3, 0.1 + 0.2, 1.1 * 1.1, math.pi, math.e, 100 / 7, 2 ** 0.5 * 1e10, 1e23, 8.41e21,
    9007199254740993.0, 2.2250738585072011e-308, 5.0e-324 * 3, 123456789.12345678, 6.0221407599999999e23,
    -0.84147098480789651, 1.7976931348623155e308, 0.3, 3e-5, 4.35, 9.5367431640625e-07 / 3,
)  # fmt: skip
"""Decimals that need 17 digits, lie near a tie of two floats, or defeat a parser that multiplies by ten."""


@cache
def awkward_values() -> tuple[float, ...]:
    """The values of the echo round, every one there for a way in which pipes have lost bits."""
    tiny = 5e-324
    subnormals = (tiny, -tiny, 2 * tiny, math.ldexp(1.0, -1050) / 3, math.nextafter(2.0**-1022, 0.0))
    edges = (
        2.0**-1022,
        _LARGEST,
        -_LARGEST,
        math.nextafter(_LARGEST, 0.0),
        2.0**53 + 2,
        2.0**63,
        2.0**64,
        1e22,
    )
    neighbours = tuple(
        value
        for exponent in (-1000, -126, -24, -1, 0, 1, 24, 53, 128, 1000)
        for value in (
            math.nextafter(2.0**exponent, 0.0), 2.0**exponent, math.nextafter(2.0**exponent, math.inf)
        )
    )  # fmt: skip
    plain = (0.0, -0.0, 1.0, -1.0, 100.0, 1e15, 1e16, 1e17, 1e300, -1e-300)
    return (*plain, *subnormals, *edges, *neighbours, *_SEVENTEEN_DIGITS, math.nan, math.inf, -math.inf)


def echo_values() -> NDArray[np.float64]:
    """`awkward_values` as one array."""
    return np.array(awkward_values(), dtype=np.float64)


def lost_in_echo(result: Any, numbers: Numbers) -> str | None:
    """What the driver's answer shows to be lost, by name and with both bit patterns; None when nothing is.

    Raises MessageError where the answer is no answer to an echo.
    """
    sent = awkward_values()
    answer = fields_of(result, "result", ("values", "bits"), ("values", "bits"))
    read = _patterns(answer["bits"], len(sent))
    wrongly_read = _first_difference(sent, read)
    if wrongly_read is not None:
        return _sentence(sent, read, wrongly_read, "the driver's reader")
    back = numbers.array_in(answer["values"], "result.values")
    if back.dtype != np.float64 or back.shape != (len(sent),):
        raise MessageError(
            "result.values", f"{len(sent)} float64 numbers went out, {back.dtype} {list(back.shape)} came"
        )
    returned = [bits_of(value) for value in back.tolist()]
    wrongly_written = _first_difference(sent, returned)
    if wrongly_written is not None:
        return _sentence(sent, returned, wrongly_written, "the driver's writer")
    return None


def _patterns(given: Any, wanted: int) -> Sequence[str]:
    if not isinstance(given, list) or len(given) != wanted:
        raise MessageError(
            "result.bits", f"{described(given)} is not a list of {wanted} texts of 16 hex digits"
        )
    for index, item in enumerate(given):
        if not isinstance(item, str) or len(item) != 16 or not set(item) <= set("0123456789abcdefABCDEF"):
            raise MessageError(f"result.bits[{index}]", f"{described(item)} is not a text of 16 hex digits")
    return [item.lower() for item in given]


def _first_difference(sent: Sequence[float], patterns: Sequence[str]) -> int | None:
    for index, (value, pattern) in enumerate(zip(sent, patterns, strict=True)):
        same = pattern == bits_of(value)
        if not same and not (math.isnan(value) and math.isnan(_value(pattern))):
            return index
    return None


def _value(pattern: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(pattern))[0])


def _sentence(sent: Sequence[float], patterns: Sequence[str], index: int, culprit: str) -> str:
    value, other = sent[index], _value(patterns[index])
    return (
        f"{culprit} loses bits: value {index} of the echo, {value!r} (bits {bits_of(value)}), "
        f"became {other!r} (bits {patterns[index]}){_guess(value, other)}"
    )


def _guess(value: float, other: float) -> str:
    """What the loss looks like."""
    with np.errstate(all="ignore"):
        if _alike(float(np.float32(value)), other):
            return "; this looks like a hop through float32"
    for digits in range(6, 17):
        if _alike(float(f"{value:.{digits}g}"), other):
            return f"; this looks like printing {digits} digits, where 17 are needed"
    if value == 0.0 and other == 0.0:
        return '; the sign of zero is gone, which JSON.stringify does (write "-0")'
    if abs(value) < 2.0**-1022 and other == 0.0:
        return "; this looks like subnormal numbers flushed to zero"
    if value != 0 and abs(other / value - 1) < 1e-12:
        return '; this looks like a decimal conversion that does not round correctly (say "numbers": "bits")'
    return ""


def _alike(left: float, right: float) -> bool:
    return struct.pack(">d", left) == struct.pack(">d", right)
