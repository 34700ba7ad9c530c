"""From an exact number to what is stored or printed: a float64, significant digits, fixed places.

Every function takes an exact number (int, Fraction, finite float, mpmath `mpf`) and rounds once, to nearest,
ties to even. An exact zero has no sign, so none of them ever gives a negative zero.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from mpmath import libmp

SIGNIFICANT_DIGITS = 40
"""Digits of a golden decimal: more than twice what a float64 can tell apart."""

_LEAST_FIXED_EXPONENT = -7


def as_fraction(value: Any) -> Fraction:
    """The exact value of an int, Fraction, float, NumPy scalar or mpmath `mpf`.

    Raises ValueError for NaN and infinities, TypeError for anything else.
    """
    if isinstance(value, Fraction):
        return value
    raw = getattr(value, "_mpf_", None)
    if raw is not None:
        if not raw[1] and raw[2]:
            raise ValueError(f"as_fraction was given {value}; only finite numbers have an exact value")
        numerator, denominator = libmp.to_rational(raw)
        return Fraction(int(numerator), int(denominator))
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"as_fraction was given {plain}; only finite numbers have an exact value")
    if not isinstance(plain, (int, float)):
        raise TypeError(f"as_fraction was given a {type(value).__name__}, not an int, float, Fraction or mpf")
    return Fraction(plain)


def nearest_float64(value: Any) -> float:
    """The float64 nearest to the exact `value`; beyond the range an infinity.

    `float()` of an mpf rounds some subnormals twice; dividing two integers in Python rounds once.
    """
    raw = getattr(value, "_mpf_", None)
    if raw is not None and raw[1] and not -1075 <= raw[2] + raw[3] <= 1024:
        # No number of millions of bits need be built for a 0 or an infinity.
        return 0.0 if raw[2] < 0 else _infinity(value)
    exact = as_fraction(value)
    try:
        rounded = exact.numerator / exact.denominator
    except OverflowError:
        return _infinity(exact)
    return rounded if rounded else 0.0


def _infinity(value: Any) -> float:
    return math.inf if value > 0 else -math.inf


def decimal_string(value: Any, *, digits: int = SIGNIFICANT_DIGITS, exact: bool = True) -> str:
    """`value` to `digits` significant decimal digits, correctly rounded.

    When `exact` and no more than `digits` digits are needed, the short exact form (`-0.5`, `0`, `1`);
    otherwise all digits are written, trailing zeros included. Fixed notation from 1e-7 up to 10**digits,
    scientific (`1.25e-9`) outside.
    """
    fraction = as_fraction(value)
    if not fraction:
        return "0"
    whole, exponent, lossless = _significant(abs(fraction), digits)
    figures = str(whole)
    if exact and lossless:
        figures = figures.rstrip("0")
    return ("-" if fraction < 0 else "") + _place_point(figures, exponent, digits)


def fixed_point(value: Any, places: int) -> str:
    """`value` to `places` decimals, for figures that are compared as strings; a rounded zero has no sign."""
    scaled = round(as_fraction(value) * 10**places)
    figures = f"{abs(scaled):0{places + 1}d}"
    whole, decimals = figures[: len(figures) - places], figures[len(figures) - places :]
    return ("-" if scaled < 0 else "") + whole + ("." + decimals if places else "")


def _significant(fraction: Fraction, digits: int) -> tuple[int, int, bool]:
    """(figures, exponent, lossless): fraction is about `figures / 10**(digits - 1) * 10**exponent`."""
    bits = fraction.numerator.bit_length() - fraction.denominator.bit_length()
    exponent = math.floor((bits - 1) * math.log10(2))
    while fraction >= _power_of_ten(exponent + 1):
        exponent += 1
    scaled = fraction * _power_of_ten(digits - 1 - exponent)
    figures = round(scaled)
    if figures == 10**digits:
        return 10 ** (digits - 1), exponent + 1, False
    return figures, exponent, figures == scaled


def _power_of_ten(exponent: int) -> Fraction:
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)


def _place_point(figures: str, exponent: int, digits: int) -> str:
    if not _LEAST_FIXED_EXPONENT <= exponent < digits:
        return f"{figures[0]}{'.' + figures[1:] if len(figures) > 1 else ''}e{exponent}"
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + figures
    figures = figures.ljust(exponent + 1, "0")
    return figures[: exponent + 1] + ("." + figures[exponent + 1 :] if len(figures) > exponent + 1 else "")
