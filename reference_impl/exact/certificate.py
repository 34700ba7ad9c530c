"""The proof that a golden decimal is the exact value, rounded.

An enclosure [low, high] holds the exact value. Where both ends round to the same 40 digits and to the same
float64, so does everything between them, the exact value included; where they do not, nothing is proved.
A value that is rational by construction comes as a point, low = high, and needs no luck: also a zero or a
tie is then certain. An irrational value that lies on a rounding boundary is undecided at any precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from reference_impl.exact.rounding import decimal_string, nearest_float64


class Undecided(ArithmeticError):  # noqa: N818 - the state of a proof, not a fault of the caller
    """The enclosure is too wide to tell which float64, or which 40 digits, the exact value rounds to."""


@dataclass(frozen=True)
class Certified:
    """A proved golden value: its decimal and the float64 that both the value and the decimal round to."""

    decimal: str
    float64: float
    exact: bool


def certify(low: Fraction, high: Fraction) -> Certified:
    """The golden value of the exact number enclosed by [low, high].

    Raises Undecided where the ends round differently, or where the decimal itself would be read as another
    float64 than the exact value rounds to.
    """
    exact = low == high
    decimal = decimal_string(low, exact=exact)
    nearest = nearest_float64(low)
    if not exact:
        if low <= 0 <= high:
            raise Undecided("an enclosure holds 0 and is not a point: its sign is unknown")
        if decimal_string(high, exact=False) != decimal:
            raise Undecided(f"an enclosure {float(high - low):.1e} wide leaves open the digits of {decimal}")
        if nearest_float64(high) != nearest:
            raise Undecided(f"the ends of an enclosure round to different float64 numbers near {decimal}")
    if (read := float(decimal)) != nearest:
        raise Undecided(f"{decimal} is read as {read.hex()}, its exact value is nearest to {nearest.hex()}")
    return Certified(decimal, nearest, exact)
