"""The contract as data, and that every testable rule is really looked at by some trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.adapter import FEATURES, LEVELS, Declaration
from conformance.contract import PROFILES, Requirement, all_requirements, requirement
from conformance.contract.fields import REQUIREMENT_OF_FIELD, REQUIREMENT_OF_KIND, UNCHANGED
from conformance.errors import UsageError
from conformance.rejections import APPEND_KINDS
from conformance.scenarios.order import pairs
from conformance.suite import traces

TESTS = Path(__file__).parent
TESTABLE = [entry for entry in all_requirements() if not entry.untestable]
BY_JUDGE = {
    "STORE-EARLIER-ROWS", "STORE-LATER-SLOTS", "STORE-ROW-BITS", "STORE-ROW-MAJOR", "STORE-ADDRESSES",
    "DECODE-EARLIER-ROWS", "DECODE-STORAGE",
}  # fmt: skip
"""Filed by the judge for every append, so that no trace has to name them."""
BY_DETAIL = {"REJECT-DETAILS", "DECODE-REFUSE-DETAILS"}
"""Filed beside a refusal for what it carries."""


def named_by_traces(level: str) -> set[str]:
    features = frozenset(FEATURES)
    both = (features, features - {"chunks"})
    declared = [Declaration(name="x", levels=(level,), features=f) for f in both]
    return {name for d in declared for trace in traces(d) for name in trace.requirements()}


@pytest.mark.parametrize("entry", all_requirements(), ids=lambda e: e.id)
def test_every_requirement_is_whole(entry: Requirement) -> None:
    assert entry.strength in ("MUST", "SHOULD", "MAY")
    assert entry.sentence.endswith(".")
    assert entry.source
    assert set(entry.levels) <= set(LEVELS)
    assert set(entry.profiles) <= set(PROFILES)
    assert entry.needs <= set(FEATURES)
    assert bool(entry.untestable) == (not entry.profiles), "a rule is in a profile, or says why it cannot be"
    assert bool(entry.untestable) == bool(entry.covered_by)


@pytest.mark.parametrize("entry", [e for e in all_requirements() if e.untestable], ids=lambda e: e.id)
def test_the_test_that_covers_an_untestable_rule_exists(entry: Requirement) -> None:
    for reference in entry.covered_by.split(", "):
        file, _, name = reference.partition("::")
        assert f"def {name}(" in (TESTS.parent / file).read_text(), reference


@pytest.mark.parametrize("level", LEVELS)
def test_every_testable_requirement_is_looked_at(level: str) -> None:
    asked = {e.id for e in TESTABLE if level in e.levels}
    assert asked - named_by_traces(level) <= BY_JUDGE | BY_DETAIL


@pytest.mark.parametrize("level", LEVELS)
def test_no_trace_names_a_requirement_that_is_not_there(level: str) -> None:
    known = {e.id for e in all_requirements()}
    assert named_by_traces(level) <= known


def test_fields_and_kinds_are_filed_under_requirements_that_exist() -> None:
    known = {e.id for e in all_requirements()}
    for table in (REQUIREMENT_OF_FIELD, REQUIREMENT_OF_KIND, UNCHANGED):
        assert set(table.values()) <= known


def test_all_pairs_of_checks_that_can_be_built_are_there() -> None:
    assert len(list(pairs(one_row=True))) == 51
    assert len(APPEND_KINDS) == 12


def test_an_unknown_requirement_is_refused_with_near_ones() -> None:
    assert requirement("agree-output").id == "AGREE-OUTPUT"
    with pytest.raises(UsageError, match="AGREE-OUTPUT"):
        requirement("AGREE-OUTPUTS")
