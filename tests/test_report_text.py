"""The report as text: order, grouping, what is missing, the verdict."""

from __future__ import annotations

import io

import pytest

from conformance.contract import profile_requirements
from conformance.report.finding import finding_lines, raised_at, reproduce
from conformance.report.style import Style, style_for
from conformance.report.text import report_text, verdict_line
from conformance.trace.model import Trace
from tests.sample_reports import DETAIL, broke, difference, failed, no_adapter, passes, report


def test_a_finding_is_told_in_the_order_of_the_design() -> None:
    trace = Trace(
        id="a/single", level="layer", about="", layers={}, caches={}, steps=(), file="golden/a.yaml", line=7
    )
    made = report(
        failed(), looks_like={("a/single", 2): ("score without scale",)}, traces={"a/single": trace}
    )
    lines = finding_lines(failed(), made, Style())
    begins = [line.strip().split("  ")[0] for line in lines]
    assert begins == [
        "AGREE-OUTPUT",
        "Every output row MUST differ from the exact causal attention of its whole prefix by at most 1e-12",
        "in float64 (1e-12 itself passes), or by the printed bound where another is provable.",
        "where", "what", "expected", "observed", "difference", "looks like", "reproduce", "trace file",
    ]  # fmt: skip
    text = "\n".join(lines)
    assert "a/single, step 2 (row 2), lane 0, head 1, position 2, output[0,2,3]" in text
    assert "-0.5" in lines[5]
    assert "-0.25" in lines[6]
    assert "0.25 (2.5e+11 of the bound 1e-12, 1e+15 ulps)" in lines[7]
    assert lines[9].endswith("kv-conformance replay a/single mine:make")
    assert lines[10].endswith("golden/a.yaml:7")


def test_numbers_are_printed_so_that_they_can_be_read_back() -> None:
    exact = 0.1 + 0.2
    lines = finding_lines(failed(difference=difference(expected=exact)), report(), Style())
    shown = next(line for line in lines if "expected" in line).split()[-1]
    assert float(shown) == exact


@pytest.mark.parametrize(("observed", "shown"), [(float("nan"), "nan"), (float("-inf"), "-inf")])
def test_numbers_that_are_not_finite_are_told(observed: float, shown: str) -> None:
    seen = difference(observed=observed, difference=float("inf"), share=float("inf"), ulps=float("inf"))
    lines = finding_lines(failed(difference=seen), report(), Style())
    assert next(line for line in lines if "observed" in line).split()[-1] == shown


def test_a_bitwise_finding_says_so() -> None:
    lines = finding_lines(failed(difference=difference(bound=0.0, share=float("inf"))), report(), Style())
    assert any("not one bit may differ" in line for line in lines)


def test_an_unmatched_likeness_is_said_plainly_and_an_unasked_one_not_at_all() -> None:
    asked = report(failed(), looks_like={("a/single", 2): ()})
    assert any("none of the known faults" in line for line in finding_lines(failed(), asked, Style()))
    assert not any("looks like" in line for line in finding_lines(failed(), report(failed()), Style()))


def test_one_cause_under_one_requirement_is_told_once_and_counted() -> None:
    many = [failed(trace=f"t{n % 4}", step=n) for n in range(40)]
    text = report_text(report(*many))
    assert text.count("Every output row MUST") == 1
    assert "39 more findings in 4 traces" in text
    assert len(text.splitlines()) < 35


def test_the_same_message_under_other_requirements_takes_a_line_each() -> None:
    text = report_text(report(failed(), failed("CAPACITY-FITS"), failed("STORE-KEYS", message="keys differ")))
    assert text.count("  fail\n") == 2, "the first of each kind of message is told in full"
    assert "CAPACITY-FITS              1 finding, first in a/single step 2, 2.5e+11 bounds off\n" in text


def test_a_breakdown_stands_once_however_many_requirements_it_hides() -> None:
    text = report_text(report(*(broke(n) for n in ("AGREE-OUTPUT", "STORE-KEYS", "RESET-LENGTH"))))
    assert text.count("append raised OSError") == 1
    assert "same under  STORE-KEYS, RESET-LENGTH" in text
    assert "raised at   /home/me/mine.py, line 12, in append" in text


def test_a_breakdown_with_other_numbers_is_still_one() -> None:
    lists = (
        broke("AGREE-OUTPUT", message="is list [1.5, -2]"),
        broke("STORE-KEYS", message="is list [3, 4.5, 6]"),
    )
    assert report_text(report(*lists)).count("is list") == 1


def test_findings_outside_the_profiles_are_mentioned_but_not_counted() -> None:
    made = report(*passes(), failed("REJECT-RANK"))
    text = report_text(made)
    assert made.verdict.text == "conformant"
    assert "REJECT-RANK" in text.split("outside")[1]
    assert "fail" not in text.splitlines()[-1]


def test_what_is_missing_is_named_with_its_reason() -> None:
    text = report_text(
        report(*passes(without=("RESET-LENGTH",)), profiles=("core", "strict"), features=frozenset())
    )
    assert "not run     RESET-LENGTH" in text
    assert "declined" in text
    assert "(not declared: rewire)" in text
    assert "hold it to less: --profile core" in text
    assert text.splitlines()[-1].startswith("incomplete: mine:make; core: ")


def test_a_conformant_report_shows_its_margin() -> None:
    text = report_text(report(*passes()))
    assert "at most 0.3 of an error bound was used (AGREE-OUTPUT)" in text
    number = len(profile_requirements("core", "layer"))
    assert text.splitlines()[-1] == f"conformant: mine:make; core: {number} of {number} pass"


def test_a_narrowed_run_says_what_was_played() -> None:
    assert "(only traces with 'gqa' were played)" in verdict_line(report(*passes(), keyword="gqa"))


def test_unequal_counts_are_shown() -> None:
    assert "3 traces of 5 planned" in report_text(report(*passes(), planned=5))


def test_a_run_without_an_adapter() -> None:
    text = report_text(no_adapter())
    assert "there is no module" in text
    assert text.splitlines()[-1] == "incomplete: no adapter could be had"


def test_plain_text_has_no_escapes_and_colour_has() -> None:
    assert "\x1b" not in report_text(report(failed()))
    assert "\x1b[31m" in report_text(report(failed()), style=Style(colour=True))


def test_the_kits_own_text_is_ascii() -> None:
    report_text(report(*passes(without=("AGREE-OUTPUT",)), failed(), broke("STORE-KEYS"))).encode("ascii")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "stream", "colour"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"FORCE_COLOR": "1"}, io.StringIO(), True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal(), False),
    ],
)
def test_colour_only_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], stream: io.StringIO, colour: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert style_for(stream).colour is colour


def test_the_command_that_reproduces_is_quoted_and_nameable() -> None:
    program = report(adapter="cmd:./driver --x")
    assert reproduce("a b", program) == "kv-conformance replay 'a b' 'cmd:./driver --x'"
    assert "MODULE:FACTORY" in reproduce("a", report(adapter="an object")), (
        "an object has no name on a command line"
    )


def test_a_trace_that_was_drawn_is_reproduced_from_its_seed() -> None:
    twin = Trace(id="a/single-twin", level="layer", about="", layers={}, caches={}, steps=(), seed=41)
    made = report(traces={"a/single-twin": twin}, seeds={"twins": 41})
    assert reproduce("a/single-twin", made) == "kv-conformance replay a/single-twin mine:make --seed 41"
    assert ", seed 41 of the twins, " in report_text(made)


def test_a_trace_of_a_users_own_file_is_reproduced_from_the_file() -> None:
    file = "found/counterexample-41.yaml"
    found = Trace(id="c/found", level="layer", about="", layers={}, caches={}, steps=(), seed=41, file=file)
    assert (
        reproduce("c/found", report(traces={"c/found": found})) == f"kv-conformance replay {file} mine:make"
    )


def test_one_explanation_of_a_run_is_told_once() -> None:
    findings = (
        failed(),
        failed("STORE-KEYS", message="keys differ"),
        failed("RESET-LENGTH", message="length is 3"),
    )
    made = report(*findings, looks_like={("a/single", 2): ("one fault", "another")})
    text = report_text(made)
    assert text.count("looks like  one fault\n              another\n") == 1
    assert text.count("fail\n") == 3


def test_the_place_of_an_error_is_that_of_the_implementation() -> None:
    import conformance.player  # noqa: PLC0415

    assert raised_at(DETAIL) == "/home/me/mine.py, line 12, in append"
    assert raised_at(f'  File "{conformance.player.__file__}", line 1, in view\n') == ""
    assert raised_at("") == ""
    deep = DETAIL + '  File "/usr/lib/python3/site-packages/numpy/core.py", line 3, in amax\n'
    assert raised_at(deep) == "/home/me/mine.py, line 12, in append"
