"""One rounding, to nearest, never a negative zero: to float64, to significant digits, to fixed places."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import MPContext

from reference_impl.exact import as_fraction, decimal_string, fixed_point, nearest_float64

MP = MPContext()
MP.dps = 60

dyadics = st.builds(
    lambda mantissa, exponent: Fraction(mantissa) * Fraction(2) ** exponent,
    st.integers(-(2**150), 2**150), st.integers(-1300, 1100),
)


def as_mpf(value: Fraction) -> mpmath.mpf:
    context = MPContext()
    context.prec = 4000
    return context.mpf(value.numerator) / value.denominator


@given(dyadics)
def test_to_the_nearest_float64_whatever_the_size(value: Fraction) -> None:
    try:
        wanted = float(value)
    except OverflowError:
        wanted = math.inf if value > 0 else -math.inf
    found = nearest_float64(as_mpf(value))
    assert found == wanted == nearest_float64(value)
    assert math.copysign(1.0, found) == 1.0 or found < 0


def test_a_subnormal_is_rounded_once() -> None:
    # Just above the middle of two subnormals; rounded to 53 bits first it is the middle, and falls to even.
    value = Fraction(1, 2**1074) * (2 + Fraction(1, 2) + Fraction(1, 2**80))
    assert nearest_float64(as_mpf(value)) == 3 * 2.0**-1074


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (MP.mpf(2) ** -(10**8), 0.0),
        (-MP.mpf(2) ** -(10**8), 0.0),
        (MP.mpf(2) ** 10**8, math.inf),
        (-MP.mpf(2) ** 10**8, -math.inf),
        (MP.mpf(0), 0.0),
        (Fraction(2**1024 - 2**970), math.inf),
        (Fraction(2**1024 - 2**970 - 1), 1.7976931348623157e308),
        (-0.0, 0.0),
        (Fraction(-1, 10**400), 0.0),
    ],
)
def test_at_the_ends_of_the_range(value: object, wanted: float) -> None:
    found = nearest_float64(value)
    assert found == wanted
    assert math.copysign(1.0, found) == math.copysign(1.0, wanted)


@given(dyadics, st.integers(1, 45))
@example(Fraction(0), 40)
@example(Fraction(10**40 - 1, 2**5), 3)
@example(Fraction(25, 100), 1)
@example(Fraction(-5, 2), 1)
def test_significant_digits_are_those_of_the_decimal_module(value: Fraction, digits: int) -> None:
    with localcontext(Context(prec=5000)):
        exact = Decimal(value.numerator) / Decimal(value.denominator)
    wanted = Context(prec=digits, rounding=ROUND_HALF_EVEN).create_decimal(exact)
    found = decimal_string(value, digits=digits)
    assert Decimal(found) == wanted
    assert not found.startswith("-0") or wanted < 0
    padded = decimal_string(value, digits=digits, exact=False)
    assert Decimal(padded) == wanted
    if value:
        mantissa = padded.lstrip("-").partition("e")[0].replace(".", "").lstrip("0")
        assert len(mantissa) == digits


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Fraction(0), "0"),
        (Fraction(-1, 2), "-0.5"),
        (Fraction(3), "3"),
        (Fraction(1200), "1200"),
        (Fraction(1, 2**10), "0.0009765625"),
        (Fraction(1, 2**30), "9.31322574615478515625e-10"),
        (Fraction(1, 3), "0." + "3" * 40),
        (Fraction(2, 3), "0." + "6" * 39 + "7"),
        (Fraction(10**45), "1e45"),
        (1 - Fraction(1, 10**41), "1." + "0" * 39),
    ],
)
def test_how_a_decimal_is_written(value: Fraction, said: str) -> None:
    assert decimal_string(value) == said


def test_a_rounded_whole_number_does_not_look_exact() -> None:
    assert decimal_string(Fraction(3), exact=False) == "3." + "0" * 39


@given(st.fractions(), st.integers(0, 12))
@example(Fraction(-1, 10**9), 4)
@example(Fraction(5, 2), 0)
def test_fixed_places_are_those_of_the_decimal_module(value: Fraction, places: int) -> None:
    with localcontext(Context(prec=400)):
        wanted = (Decimal(round(value * 10**places)) / 10**places).quantize(Decimal(1).scaleb(-places))
    found = fixed_point(value, places)
    assert Decimal(found) == wanted
    assert not (found.startswith("-") and Decimal(found) == 0)
    assert len(found.partition(".")[2]) == places


def test_exact_values_of_every_kind_of_number() -> None:
    assert as_fraction(np.float32(0.1)) == Fraction(float(np.float32(0.1)))
    assert as_fraction(np.int64(7)) == 7
    assert as_fraction(MP.mpf(3) / 8) == Fraction(3, 8)
    assert as_fraction(0.1) == Fraction(3602879701896397, 2**55)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, MP.nan, MP.inf])
def test_a_number_that_is_not_finite_has_no_exact_value(value: object) -> None:
    with pytest.raises(ValueError, match="only finite numbers"):
        as_fraction(value)


def test_other_things_are_no_numbers() -> None:
    with pytest.raises(TypeError, match="a str, not an int, float, Fraction or mpf"):
        as_fraction("1")
