"""The three grammars of numbers: what each takes, what each refuses, and that nothing is rounded twice."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.trace import exact_numbers as en

FORTY = "1234567890" * 4


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("0", 0.0),
        ("-24", -24.0),
        ("1/2", 0.5),
        ("-3/8", -0.375),
        ("0x1.8p+1", 3.0),
        ("-0x1p-1074", -5e-324),
        ("0x0.0000000000001p-1022", 5e-324),
        ("0x1.fffffffffffffp+1023", 1.7976931348623157e308),
        ("9007199254740992", 2.0**53),
    ],
)
def test_exact_numbers(token: str, value: float) -> None:
    assert en.exact_number(token) == value
    assert Fraction(value) == en.exact_fraction(token)


@pytest.mark.parametrize("token", ["-0", "-0x0p+0", "-0x0.0p+0"])
def test_negative_zero_keeps_its_sign(token: str) -> None:
    assert math.copysign(1.0, en.exact_number(token)) == -1.0


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("0.5", "not an exact number"),
        ("1e3", "not an exact number"),
        ("1/3", "3 is no power of two"),
        ("1/0", "not an exact number"),
        ("010", "not an exact number"),
        ("+1", "not an exact number"),
        ("1_000", "not an exact number"),
        ("0X1P+1", "not an exact number"),
        ("", "not an exact number"),
        ("nan", "not an exact number"),
        ("٣", "not an exact number"),
        ("9007199254740993", "no float64"),
        ("1/" + str(2**1075), "no float64"),
        ("0x1.00000000000001p+0", "no float64"),
        ("0x1p-1075", "no float64"),
        ("0x1.8p-1074", "no float64"),
        ("0x1p+1024", "no float64"),
        ("0x1p+9999", "no float64"),
        ("1" * 400, "no float64"),
        ("1" * 5000, "has 5000 characters"),
    ],
)
def test_exact_numbers_refuse(token: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        en.exact_number(token)


@pytest.mark.parametrize(
    "token",
    [
        *("1.5", "-0.03125", "0.0", "2.5e-1", "1e3", "1/2", "0x1.8p+1", "7"),
        *(f"0.{FORTY}", f"0.000{FORTY}", f"-{FORTY}.5", f"1.{FORTY}e-12", f"0.{FORTY[:39]}9"),
    ],
)
def test_golden_numbers(token: str) -> None:
    expected = float(token) if "/" not in token and "x" not in token else float(en.exact_fraction(token))
    assert en.golden_number(token) == expected
    assert float(en.golden_fraction(token)) == expected


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("0.1", "1 significant digits"),
        (f"0.{FORTY[:39]}", "39 significant digits"),
        ("0.00000000000000000000000000000000000000001", "1 significant digits"),
        (f"1.{FORTY}e400", "beyond the largest"),
        ("nan", "not finite"),
        ("-inf", "not finite"),
        (".inf", "not finite"),
        ("Infinity", "not finite"),
        ("1e400", "beyond the largest"),
        (".5", "not an exact number"),
        ("1.", "not an exact number"),
        ("1:30", "not an exact number"),
        ("1/3", "power of two"),
    ],
)
def test_golden_numbers_refuse(token: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        en.golden_number(token)


@pytest.mark.parametrize(("token", "value"), [("3.9e-10", 3.9e-10), ("100", 100.0), ("1/2", 0.5)])
def test_settings(token: str, value: float) -> None:
    assert en.setting(token) == value


@pytest.mark.parametrize("token", ["1e400", "nan", "inf", ".5", "1e", "", "0.1 0.2"])
def test_settings_refuse(token: str) -> None:
    with pytest.raises(ValueError, match=r"number|largest"):
        en.setting(token)


def test_handed_numbers_may_be_what_no_golden_is() -> None:
    assert math.isnan(en.handed_number("nan"))
    assert en.handed_number("-inf") == -math.inf
    with pytest.raises(ValueError, match="not an exact number"):
        en.handed_number("infinity")


@given(st.floats())
def test_every_float_survives_being_written(value: float) -> None:
    back = en.handed_number(en.write_exact(value))
    assert math.isnan(back) if math.isnan(value) else back.hex() == value.hex()


@given(st.lists(st.integers(0, 10**40 - 1), min_size=1, max_size=4), st.integers(0, 30))
def test_the_fast_way_reads_what_the_slow_way_reads(digits: list[int], zeros: int) -> None:
    tokens = [f"-0.{'0' * zeros}{n + 10**40}" for n in digits] + [f"{n + 10**40}.{n}" for n in digits]
    assert en._LONG_ROW.fullmatch(" ".join(tokens))
    assert en.Rows().golden(" ".join(tokens)) == [en.golden_number(token) for token in tokens]


@pytest.mark.parametrize("row", [" 1", "1 ", "1  2", "1\t2", "1\n2"])
def test_rows_have_exactly_one_space(row: str) -> None:
    with pytest.raises(ValueError, match=r"space|exact"):
        en.Rows().exact(row)


def test_an_empty_row_holds_no_number() -> None:
    assert en.Rows().exact("") == []


@pytest.mark.parametrize("token", ["1.0", "0x1", "1" * 40, "00", "--1", ""])
def test_whole_numbers_refuse(token: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        en.whole(token)
