"""The report as JUnit XML: well formed, counted, and not greener than the verdict."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

from conformance.report.junit import junit_text, write_junit
from tests.sample_reports import broke, failed, no_adapter, passes, report


def suites(text: str) -> list[Xml.Element]:
    root = Xml.fromstring(text)
    found = root.findall("testsuite")
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        for suite in found:
            assert int(suite.get(name, "")) == sum(
                case.find(kind) is not None for case in suite.findall("testcase")
            )
            assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert int(root.get(name, "")) == sum(int(suite.get(name, "")) for suite in found)
    return found


def case(suite: Xml.Element, name: str) -> Xml.Element:
    return next(c for c in suite.findall("testcase") if c.get("name") == name)


def test_a_case_for_every_requirement_and_one_for_the_verdict() -> None:
    made = report(*passes(), profiles=("core", "strict"))
    core, strict = suites(junit_text(made))
    assert len(core.findall("testcase")) == len(made.verdict.profiles[0].results) + 1
    assert core.get("failures") == core.get("errors") == "0"
    assert case(core, "verdict").find("failure") is None
    assert case(strict, "verdict").find("failure") is not None, "incomplete is not success"
    assert int(strict.get("skipped", "")) > 0


def test_findings_become_failures_and_errors_with_their_text() -> None:
    (core,) = suites(junit_text(report(failed(), broke("STORE-KEYS"))))
    failure = case(core, "AGREE-OUTPUT").find("failure")
    assert failure is not None
    assert "2.5e+11 of the bound" in (failure.text or "")
    error = case(core, "STORE-KEYS").find("error")
    assert error is not None
    assert "boom()" in (error.text or ""), "the traceback of the implementation is kept"


def test_signs_that_xml_cannot_hold_are_replaced() -> None:
    text = junit_text(report(failed(message="a\x00b\x1b[31m <&> \ud800 \ufffe"), adapter="x:<&>"))
    (core,) = suites(text)
    failure = case(core, "AGREE-OUTPUT").find("failure")
    assert failure is not None
    assert failure.get("message") == "a\ufffdb\ufffd[31m <&> \ufffd \ufffd"
    text.encode()


def test_a_run_without_an_adapter_is_an_error() -> None:
    (suite,) = suites(junit_text(no_adapter()))
    assert suite.get("errors") == "1"


def test_a_run_that_asked_nothing_is_not_green() -> None:
    (suite,) = suites(junit_text(report(profiles=())))
    assert suite.get("errors") == "1"


def test_it_is_written(tmp_path: Path) -> None:
    write_junit(report(failed()), tmp_path / "x.xml")
    assert Xml.parse(tmp_path / "x.xml").getroot().get("failures") == "2"
