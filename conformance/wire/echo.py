"""The echo round: numbers that a careless pipe loses, sent and read back before anything is judged."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
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
    wrongly_read = _differences(sent, read)
    if wrongly_read:
        return _sentence(sent, read, wrongly_read, "the driver's reader")
    back = numbers.array_in(answer["values"], "result.values")
    if back.dtype != np.float64 or back.shape != (len(sent),):
        raise MessageError(
            "result.values", f"{len(sent)} float64 numbers went out, {back.dtype} {list(back.shape)} came"
        )
    returned = [bits_of(value) for value in back.tolist()]
    wrongly_written = _differences(sent, returned)
    if wrongly_written:
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


def _differences(sent: Sequence[float], patterns: Sequence[str]) -> list[int]:
    return [
        index
        for index, (value, pattern) in enumerate(zip(sent, patterns, strict=True))
        if not _alike(value, _value(pattern))
    ]


def _value(pattern: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(pattern))[0])


def _alike(left: float, right: float) -> bool:
    """The same bits; one NaN is as good as another."""
    return struct.pack(">d", left) == struct.pack(">d", right) or (math.isnan(left) and math.isnan(right))


def _sentence(sent: Sequence[float], patterns: Sequence[str], lost: list[int], culprit: str) -> str:
    first = lost[0]
    others = [_value(pattern) for pattern in patterns]
    finite = [pair for pair in zip(sent, others, strict=True) if math.isfinite(pair[0])]
    return (
        f"{culprit} loses bits: value {first} of the echo, {sent[first]!r} (bits {bits_of(sent[first])}), "
        f"became {others[first]!r} (bits {patterns[first]}), and {len(lost) - 1} more of {len(sent)} changed"
        f"{_guess(finite)}"
    )


def _guess(pairs: Sequence[tuple[float, float]]) -> str:
    """What the loss looks like: the first explanation under which every value became what it became."""
    for explanation, change in _EXPLANATIONS.items():
        if all(_alike(change(value), other) for value, other in pairs):
            return f"; this looks like {explanation}"
    near = all(value == other or abs(other - value) <= 1e-12 * abs(value) for value, other in pairs)
    return f"; this looks like {_MISROUNDING}" if near else ""


def _float32(value: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(value))


def _digits(count: int) -> Callable[[float], float]:
    return lambda value: float(f"{value:.{count}g}")


_MISROUNDING = 'a decimal conversion that does not round correctly (say "numbers": "bits")'
_EXPLANATIONS: Mapping[str, Callable[[float], float]] = {
    'the sign of zero lost, as by JSON.stringify (write "-0")': lambda value: value + 0.0,
    "a hop through float32": _float32,
    "subnormal numbers flushed to zero": lambda v: math.copysign(0.0, v) if abs(v) < 2.0**-1022 else v,
    **{f"{count} digits printed, where 17 are needed": _digits(count) for count in range(16, 5, -1)},
}
