"""The report as JSON: valid against its schema, whole, and honest about numbers that JSON lacks."""

from __future__ import annotations

import importlib.resources
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conformance import Report
from conformance.errors import ConformanceError
from conformance.report.json import read_report, report_document, write_report
from tests.sample_reports import broke, difference, failed, no_adapter, passes, report

NAN = float("nan")


@pytest.fixture(scope="module")
def schema() -> Any:
    text = importlib.resources.files("conformance").joinpath("schemas", "report.schema.json").read_text()
    found = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(found)
    return found


SAMPLES = {
    "conformant": report(*passes()),
    "failed": report(
        failed(), broke("STORE-KEYS"), profiles=("core", "strict"), keyword="x", seeds={"twins": 3}
    ),
    "not finite": report(
        failed(difference=difference(observed=NAN, share=float("inf"), ulps=NAN, lane=None))
    ),
    "while building": report(failed(step=-1, difference=None)),
    "likeness": report(failed(), looks_like={("a/single", 2): ("one", "two")}),
    "no adapter": no_adapter(),
    "nothing ran": report(),
}


@pytest.mark.parametrize("made", SAMPLES.values(), ids=list(SAMPLES))
def test_every_report_is_valid_and_comes_back(made: Report, schema: Any, tmp_path: Path) -> None:
    write_report(made, tmp_path / "report.json")
    found = read_report(tmp_path / "report.json")
    jsonschema.validate(found, schema)
    assert found == report_document(made)


def test_the_schema_refuses_what_is_not_a_report(schema: Any) -> None:
    document = report_document(SAMPLES["failed"])
    for spoil in (
        {"verdict": {"text": "fine", "exit_code": 0}},
        {"footer": {}},
        {"findings": [{}]},
        {"unknown": 1},
        {"profiles": [{**document["profiles"][0], "counts": {"passed": 3}}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, **spoil}, schema)


def test_numbers_that_are_not_finite_stand_as_strings(tmp_path: Path) -> None:
    write_report(SAMPLES["not finite"], tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    json.loads(text, parse_constant=pytest.fail)
    found = read_report(tmp_path / "r.json")["findings"][0]["difference"]
    assert (found["observed"], found["share"], found["ulps"]) == ("nan", "inf", "nan")


def test_counts_agree_with_what_stands_there() -> None:
    document = report_document(SAMPLES["failed"])
    listed = [r for p in document["profiles"] for r in p["requirements"]]
    footer = document["footer"]
    assert footer["requirements"] == len(listed)
    assert (footer["profiles"], footer["findings"], footer["checks"]) == (2, 2, 2)
    for profile in document["profiles"]:
        assert sum(profile["counts"].values()) == len(profile["requirements"])
    assert document["verdict"] == {"text": "not conformant", "exit_code": 1}
    assert document["seeds"] == {"twins": 3}


def test_a_likeness_is_written_once_however_many_findings_have_it() -> None:
    findings = [failed(step=n) for n in range(5)]
    document = report_document(
        report(*findings, looks_like={("a/single", n): ("one", "two") for n in range(4)})
    )
    assert document["likenesses"] == [["one", "two"]]
    assert [found["looks_like"] for found in document["findings"]] == [0, 0, 0, 0, None]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"fail"', '"pass"', 1),
        lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "footer"}),
        lambda text: json.dumps({**json.loads(text), "findings": []}),
        lambda _: "[]",
        lambda _: "",
        lambda _: '{"format": "something else"}',
    ],
)
def test_a_cut_or_changed_report_is_refused(spoil: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(SAMPLES["failed"], path)
    path.write_text(spoil(path.read_text()))
    with pytest.raises(ConformanceError, match=r"report\.json"):
        read_report(path)
