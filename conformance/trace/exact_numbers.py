"""Numbers as text, in the three grammars of a trace file.

exact: what goes into an implementation, and anything that must not be rounded: an integer, a fraction whose
denominator is a power of two, or a C99 hexadecimal float. It must be a float64, so that nothing is rounded.
golden: what must come out: an exact number, or a decimal of at least `GOLDEN_DIGITS` significant digits.
setting: bounds, bases, epsilons: an exact number or any decimal, rounded once to float64.

Not one of them has an underscore, a plus sign in front, a leading zero or a bare point. Every function raises
ValueError with a sentence that says what was found and what would be right; the caller adds the place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

GOLDEN_DIGITS = 40
"""Significant digits that a golden decimal has at least, unless it is exact."""

WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""The numbers that are not finite, as a step may hand them to an implementation on purpose."""

LONGEST = 1200
"""Characters of the longest number; the longest exact float64 needs 1 077 decimal characters."""

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,38})")
_RATIO = re.compile(r"(-?(?:0|[1-9][0-9]*))/([1-9][0-9]*)")
_HEX = re.compile(r"(-?)0x([0-9a-f]+)(?:\.([0-9a-f]+))?p([+-]?[0-9]{1,4})")
_CANONICAL_HEX = re.compile(r"-?0x[01](?:\.[0-9a-f]{1,13})?p(?:[+-][0-9]{1,3}|-10[01][0-9]|-102[012])")
"""Hexadecimal floats that are a float64 whatever their digits."""
_DECIMAL = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:e([+-]?[0-9]{1,4}))?")
_LONG = r"(?>-?(?:0\.0{0,40}[1-9][0-9]{39,60}|(?=[0-9.]{41})[1-9][0-9]{0,60}\.[0-9]{1,60}))"
_LONG_ROW = re.compile(f"{_LONG}(?: {_LONG})*+")


def exact_number(token: str) -> float:
    """The float64 that an exact number is."""
    if _CANONICAL_HEX.fullmatch(token):
        return float.fromhex(token)
    fraction = exact_fraction(token)
    value = _nearest(fraction)
    if math.isinf(value) or Fraction(value) != fraction:
        raise ValueError(f"{_show(token)} is no float64: it would be rounded to {value!r}; write one that is")
    return -0.0 if token.startswith("-") and value == 0.0 else value


def _nearest(fraction: Fraction) -> float:
    try:
        return fraction.numerator / fraction.denominator
    except OverflowError:
        return math.inf if fraction > 0 else -math.inf


def exact_fraction(token: str) -> Fraction:
    """The value of an exact number as a fraction, whether it is a float64 or not."""
    if len(token) > LONGEST:
        raise ValueError(f"{_show(token)} has {len(token)} characters; a number has at most {LONGEST}")
    if _INTEGER.fullmatch(token):
        return Fraction(int(token))
    if ratio := _RATIO.fullmatch(token):
        below = int(ratio[2])
        if below & (below - 1):
            raise ValueError(f"{_show(token)} is not exact in binary: {below} is no power of two")
        return Fraction(int(ratio[1]), below)
    if parts := _HEX.fullmatch(token):
        sign, whole, after, exponent = parts[1], parts[2], parts[3] or "", int(parts[4])
        size = int(whole + after, 16) * Fraction(2) ** (exponent - 4 * len(after))
        return -size if sign else size
    raise ValueError(
        f"{_show(token)} is not an exact number; write an integer, a fraction p/q with q a power of two, "
        f"or a hexadecimal float such as 0x1.8p+1"
    )


def handed_number(token: str) -> float:
    """An exact number, or one of `nan`, `inf`, `-inf`: what a step hands to an implementation."""
    return WORDS[token] if token in WORDS else exact_number(token)


def golden_number(token: str) -> float:
    """The float64 nearest to a golden number, which is finite and exact or has enough digits."""
    decimal = _DECIMAL.fullmatch(token)
    if decimal is None or _INTEGER.fullmatch(token):
        return _exact_golden(token)
    if len(token) > LONGEST:
        raise ValueError(f"{_show(token)} has {len(token)} characters; a number has at most {LONGEST}")
    digits = (decimal[2] + (decimal[3] or "")).lstrip("0")
    if len(digits) < GOLDEN_DIGITS and not _is_dyadic(decimal):
        raise ValueError(
            f"{_show(token)} has {len(digits)} significant digits and is not exact in binary; "
            f"a golden decimal has at least {GOLDEN_DIGITS}"
        )
    return _finite(token)


def _exact_golden(token: str) -> float:
    if token in WORDS or token.lstrip("+-.").lower() in ("nan", "inf", "infinity"):
        raise ValueError(f"{_show(token)} is not finite; what must come out is always a finite number")
    try:
        return exact_number(token)
    except ValueError as problem:
        raise ValueError(f"{problem}; or, being golden, a decimal of {GOLDEN_DIGITS} digits") from None


def _is_dyadic(decimal: re.Match[str]) -> bool:
    """True where a decimal has a finite binary expansion: 5**k divides its digits, with k decimal places."""
    after = decimal[3] or ""
    places = len(after) - int(decimal[4] or 0)
    return places <= 0 or int(decimal[2] + after) % 5**places == 0


def golden_fraction(token: str) -> Fraction:
    """The value of a golden number as it is printed."""
    golden_number(token)
    return Fraction(token) if _DECIMAL.fullmatch(token) else exact_fraction(token)


def setting(token: str) -> float:
    """The float64 nearest to a decimal of any length, or an exact number; always finite."""
    if not _DECIMAL.fullmatch(token) or len(token) > LONGEST:
        return exact_number(token)
    return _finite(token)


def _finite(token: str) -> float:
    value = float(token)
    if math.isinf(value):
        raise ValueError(f"{_show(token)} is beyond the largest float64, 1.7976931348623157e+308")
    return value


class Rows:
    """Reads rows of numbers, one grammar per reader; equal tokens are converted once."""

    def __init__(self) -> None:
        self._exact: dict[str, float] = {}
        self._handed: dict[str, float] = {}
        self._golden: dict[str, float] = {}

    def exact(self, row: str) -> list[float]:
        """A row of exact numbers."""
        return _numbers(row, self._exact, exact_number)

    def handed(self, row: str) -> list[float]:
        """A row of exact numbers in which `nan`, `inf` and `-inf` may stand."""
        return _numbers(row, self._handed, handed_number)

    def golden(self, row: str) -> list[float]:
        """A row of golden numbers."""
        # Nearly every golden row holds long decimals only: one match and one pass in C.
        if _LONG_ROW.fullmatch(row):
            return list(map(float, row.split(" ")))
        return _numbers(row, self._golden, golden_number)

    def integers(self, row: str) -> list[int]:
        """A row of whole numbers."""
        return [whole(token) for token in _tokens(row)]


def _numbers(row: str, known: dict[str, float], convert: Callable[[str], float]) -> list[float]:
    found = []
    for token in _tokens(row):
        value = known.get(token)
        if value is None:
            value = known[token] = convert(token)
        found.append(value)
    return found


def _tokens(row: str) -> list[str]:
    if not row:
        return []
    tokens = row.split(" ")
    if "" in tokens:
        raise ValueError(f"{_show(row)} has a space too many; numbers stand apart by exactly one space")
    return tokens


def whole(token: str) -> int:
    """A whole number of at most 39 digits."""
    if not _WHOLE.fullmatch(token):
        raise ValueError(f"{_show(token)} is not a whole number such as 24")
    return int(token)


def write_exact(value: float) -> str:
    """The shortest exact number that reads back to `value` bit for bit; `nan`, `inf`, `-inf` as such."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    above, below = value.as_integer_ratio()
    if value == 0.0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    if abs(above) < 10**6 and below <= 2**20:
        return str(above) if below == 1 else f"{above}/{below}"
    mantissa, exponent = value.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"


def _show(token: str) -> str:
    return repr(token if len(token) <= 60 else token[:57] + "...")
