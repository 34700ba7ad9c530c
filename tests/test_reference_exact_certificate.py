"""What an enclosure proves, and when it proves nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.exact import Certified, Undecided, certify

THIRD, TINY = Fraction(1, 3), Fraction(1, 10**60)


def test_a_narrow_enclosure_proves_digits_and_float() -> None:
    assert certify(THIRD - TINY, THIRD + TINY) == Certified("0." + "3" * 40, 1 / 3, exact=False)


def test_a_point_is_exact_even_at_zero_and_on_a_tie() -> None:
    tie = 1 + Fraction(1, 2**53)
    assert certify(Fraction(0), Fraction(0)) == Certified("0", 0.0, exact=True)
    assert certify(tie, tie).float64 == 1.0
    assert certify(tie, tie).decimal == "1.00000000000000011102230246251565404236" + "3"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-TINY, TINY, "its sign is unknown"),
        (Fraction(0), TINY, "its sign is unknown"),
        (THIRD - Fraction(1, 10**30), THIRD + Fraction(1, 10**30), "leaves open the digits"),
        (Fraction(2, 3) - Fraction(1, 10**40), Fraction(2, 3), "leaves open the digits"),
    ],
)
def test_a_wide_enclosure_proves_nothing(low: Fraction, high: Fraction, said: str) -> None:
    with pytest.raises(Undecided, match=said):
        certify(low, high)


def test_a_tie_that_is_not_a_point_is_undecided() -> None:
    tie = 1 + Fraction(1, 2**53)
    with pytest.raises(Undecided):
        certify(tie - TINY, tie + TINY)


def test_a_decimal_that_would_be_read_as_another_float_is_undecided() -> None:
    # Above the tie by less than 40 digits can tell: the value rounds up, its decimal reads as the tie itself.
    value = 2**60 + 128 + Fraction(1, 10**30)
    with pytest.raises(Undecided, match="is read as 0x1"):
        certify(value, value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float64_is_certified_as_itself(value: float) -> None:
    proved = certify(Fraction(value), Fraction(value))
    assert float(proved.decimal) == proved.float64 == value
