"""The verdict: computed from the full list, so that what did not run can never pass."""

from __future__ import annotations

import pytest

from conformance.adapter import FEATURES, Declaration
from conformance.contract import PROFILES, all_requirements, profile_requirements
from conformance.errors import UsageError
from conformance.judge.findings import Check, Status
from conformance.verdict import default_profiles, result, verdict

EVERYTHING = Declaration(name="all", features=frozenset(FEATURES))
NOTHING = Declaration(name="bare")


def checks(status: Status = "pass", *, without: str = "", extra: Check | None = None) -> list[Check]:
    made = [Check(entry.id, status, "t", 0, "step") for entry in all_requirements() if entry.id != without]
    return [*made, *([extra] if extra else [])]


def one(requirement: str, status: Status) -> Check:
    return Check(requirement, status, "t", 0, "step")


def test_a_run_that_tested_nothing_is_incomplete() -> None:
    found = verdict(["strict"], EVERYTHING, [])
    assert (found.text, found.exit_code) == ("incomplete", 4)
    assert {r.standing for r in found.profiles[0].results} == {"not run"}


def test_no_profile_at_all_is_incomplete() -> None:
    assert verdict([], EVERYTHING, checks()).exit_code == 4


def test_everything_passed_is_conformant() -> None:
    found = verdict(["strict"], EVERYTHING, checks())
    assert (found.text, found.exit_code) == ("conformant", 0)


@pytest.mark.parametrize("missing", [e.id for e in profile_requirements("strict", "layer")])
def test_a_single_requirement_that_did_not_run_is_never_conformant(missing: str) -> None:
    assert verdict(["strict"], EVERYTHING, checks(without=missing)).text == "incomplete"


@pytest.mark.parametrize("failed", [e.id for e in profile_requirements("core", "layer")])
def test_one_failure_beside_passes_is_not_conformant(failed: str) -> None:
    found = verdict(["core"], EVERYTHING, checks(extra=one(failed, "fail")))
    assert (found.text, found.exit_code) == ("not conformant", 1)


def test_fail_before_error_before_incomplete() -> None:
    error, fail = one("AGREE-OUTPUT", "error"), one("STORE-KEYS", "fail")
    assert verdict(["core"], EVERYTHING, checks(extra=error)).exit_code == 3
    assert verdict(["core"], EVERYTHING, [*checks(), error, fail]).exit_code == 1
    assert verdict(["core"], EVERYTHING, [error]).exit_code == 3


def test_over_several_profiles_the_worst_wins() -> None:
    found = verdict(["core", "chunks"], EVERYTHING, checks(extra=one("CHUNK-AGREE", "fail")))
    assert [p.exit_code for p in found.profiles] == [0, 1]
    assert found.exit_code == 1


def test_a_missing_feature_is_declined_and_declining_is_never_passing() -> None:
    found = verdict(["strict"], NOTHING, checks())
    standings = {r.requirement.id: r.standing for r in found.profiles[0].results}
    assert standings["STORE-TOTAL"] == "declined"
    assert found.text == "incomplete"


def test_unobserved_counts_only_where_the_contract_allows_it() -> None:
    blind = [c if c.requirement != "STORE-KEYS" else one("STORE-KEYS", "unobserved") for c in checks()]
    assert verdict(["core"], EVERYTHING, blind).text == "conformant"
    blind = [c if c.requirement != "AGREE-OUTPUT" else one("AGREE-OUTPUT", "unobserved") for c in checks()]
    assert verdict(["core"], EVERYTHING, blind).text == "incomplete"


def test_a_profile_in_which_all_is_unobserved_is_incomplete() -> None:
    allowed = [one(e.id, "unobserved") for e in profile_requirements("core", "layer")]
    assert verdict(["core"], EVERYTHING, allowed).text == "incomplete"


def test_growing_caches_are_not_asked_for_addresses() -> None:
    growing = Declaration(name="growing", features=frozenset(FEATURES), capacity="growing")
    entry = next(e for e in all_requirements() if e.id == "CAPACITY-FULL")
    assert result(entry, growing, []).standing == "unobserved"
    assert result(entry, EVERYTHING, []).standing == "not run"


def test_a_growing_cache_that_fails_such_a_rule_all_the_same_fails() -> None:
    growing = Declaration(name="growing", features=frozenset(FEATURES), capacity="growing")
    entry = next(e for e in all_requirements() if e.id == "RESET-BYTES")
    assert result(entry, growing, [one("RESET-BYTES", "fail")]).standing == "fail"


def test_unknown_profiles_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="strikt"):
        verdict(["strikt"], EVERYTHING, [])
    with pytest.raises(UsageError, match="attention"):
        verdict(["paged"], Declaration(name="a", levels=("attention",)), [])


def test_default_profiles_follow_the_declaration() -> None:
    assert default_profiles(NOTHING, embedded=False) == ("core",)
    assert default_profiles(Declaration(name="c", features=frozenset({"chunks"})), embedded=False) == (
        "core",
        "chunks",
    )
    assert default_profiles(EVERYTHING, embedded=True)[0] == "strict"
    assert default_profiles(EVERYTHING, embedded=False)[0] == "core"
    assert default_profiles(Declaration(name="s", levels=("store",)), embedded=True) == ("store",)


def test_every_profile_lists_something_at_every_level_it_names() -> None:
    for profile in PROFILES.values():
        for level in profile.levels:
            assert profile_requirements(profile.name, level), (profile.name, level)
