"""The report as JUnit XML: one suite a profile, one case a requirement, and one for the verdict.

A requirement that stands neither as pass nor as fail or error is a skipped case; so that a reader of cases
alone is not misled, the case `verdict` fails unless the profile is conformant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as Xml

from conformance.report.files import write_whole
from conformance.report.finding import finding_lines
from conformance.report.model import Report
from conformance.report.style import Style
from conformance.report.text import verdict_line
from conformance.verdict import ProfileVerdict, Result

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(report: Report) -> str:
    """The XML document as text."""
    suites = [_suite(report, profile) for profile in report.verdict.profiles] or [_broken(report)]
    root = Xml.Element("testsuites", name="kv-conformance")
    for suite in suites:
        for name in ("tests", "failures", "errors", "skipped"):
            root.set(name, str(int(root.get(name, "0")) + int(suite.get(name, "0"))))
    root.set("time", f"{report.seconds:.3f}")
    root.extend(suites)
    Xml.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{Xml.tostring(root, encoding='unicode')}\n"


def write_junit(report: Report, path: Path) -> None:
    """Write the XML to `path`, whole or not at all. Raises UsageError where that cannot be."""
    write_whole(path, junit_text(report))


def _suite(report: Report, profile: ProfileVerdict) -> Xml.Element:
    suite = _new_suite(report, profile.profile)
    for entry in profile.results:
        case = _case(suite, profile.profile, entry.requirement.id)
        for kind, message, text in _outcome(report, entry):
            part = Xml.SubElement(case, kind, message=_clean(message))
            part.text = _clean(text)
    case = _case(suite, profile.profile, "verdict")
    if profile.text != "conformant":
        text = verdict_line(report)
        Xml.SubElement(case, "failure", message=_clean(f"{profile.profile}: {profile.text}")).text = _clean(
            text
        )
    return _counted(suite)


def _outcome(report: Report, entry: Result) -> Iterator[tuple[str, str, str]]:
    if entry.findings:
        lead = entry.findings[0]
        text = "\n".join(finding_lines(lead, report, Style(), more=entry.findings[1:]))
        yield "failure" if entry.standing == "fail" else "error", lead.message, f"{text}\n{lead.detail}"
    elif entry.standing != "pass":
        yield "skipped", f"{entry.standing}: {entry.reason}" if entry.reason else entry.standing, ""


def _broken(report: Report) -> Xml.Element:
    suite = _new_suite(report, "adapter")
    case = _case(suite, "adapter", "verdict")
    message = report.broken or "nothing was asked"
    Xml.SubElement(case, "error", message=_clean(message)).text = _clean(report.broken_detail or message)
    return _counted(suite)


def _new_suite(report: Report, profile: str) -> Xml.Element:
    suite = Xml.Element(
        "testsuite", name=_clean(f"{report.adapter}: {profile}"), time=f"{report.seconds:.3f}"
    )
    properties = Xml.SubElement(suite, "properties")
    told = {**report.environment, "contract": report.contract_version, "traces digest": report.digest}
    for name, value in told.items():
        Xml.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    return suite


def _case(suite: Xml.Element, profile: str, name: str) -> Xml.Element:
    return Xml.SubElement(suite, "testcase", classname=f"kv-conformance.{profile}", name=name, time="0")


def _counted(suite: Xml.Element) -> Xml.Element:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for attribute, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(kind) is not None for case in cases)))
    return suite


def _clean(text: str) -> str:
    """`text` without the characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
