"""The whole gate against cheats and crashes: none passes, and the rest of the report stays whole."""

import sys
from collections import Counter

import pytest

from conformance.check import check
from conformance.suite import traces
from conformance.wire import isolated
from tests.zoo.exercise import HOSTILE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")

PLAYED = ("append-five", "caller-array", "capacity", "evidence", "reuse-probe", "overflow-output-2")
CHEATS = {
    "MutatesInputs": ("fail", "ISOLATE-INPUTS"),
    "PatchesNumpy": ("fail", "AGREE-OUTPUT"),
    "KnowsByHeart": ("fail", "AGREE-OUTPUT"),
    "ClaimsWhatItLacks": ("error", "STORE-UNUSED"),
    "LacksWhatItClaims": ("error", "AGREE-HEADS"),
    # It shows copies, which no write reaches; that their addresses differ too is up to the allocator.
    "LiesAboutStorage": ("fail", "REUSE-STORED-ROW"),
}


def served(name, **options):
    return isolated(f"{HOSTILE.with_name('fooling.py')}:{name}", **options)


def chosen(declaration):
    """A few traces, so that a process each is affordable: PLAYED, one that poisons, one on inputs."""
    every = list(traces(declaration))
    poisoning = next(t for t in every if any(step.op == "poison" for step in t.steps))
    on_inputs = next(t for t in every if "ISOLATE-INPUTS" in t.requirements())
    return [t for t in every if t.id in (*PLAYED, poisoning.id, on_inputs.id)]


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_does_not_pass(name):
    status, requirement = CHEATS[name]
    with served(name) as adapter:
        report = check(adapter, "strict", only=chosen(adapter.declaration))
    assert report.verdict.text != "conformant"
    found = {(c.status, c.requirement) for c in report.checks}
    assert (status, requirement) in found, sorted(pair for pair in found if pair[0] != "pass")
    assert report.reported == report.planned


def test_the_control_passes_what_the_cheats_are_held_against():
    with isolated("numpy") as adapter:
        report = check(adapter, "strict", only=chosen(adapter.declaration))
    assert {c.status for c in report.checks} == {"pass"}
    seen = {c.requirement for c in report.checks}
    assert {requirement for _, requirement in CHEATS.values()} <= seen


def test_declaring_nothing_is_no_way_round():
    with served("DeclaresLess") as adapter:
        assert check(adapter, "strict", keyword="append-five").verdict.text == "incomplete"


@pytest.mark.parametrize(("name", "limits"), [("CrashesAtFull", {}), ("HangsAtFull", {"time_limit": 0.4})])
def test_a_break_is_an_error_of_its_step_and_the_run_goes_on(name, limits):
    with served(name, **limits) as adapter:
        planned = chosen(adapter.declaration)
        report = check(adapter, "strict", only=planned)
    with isolated("numpy") as adapter:
        whole = check(adapter, "strict", only=planned)
    broken = [c for c in report.checks if c.status == "error"]
    assert {c.trace for c in broken} == {"capacity"}
    assert ("SIGABRT" if name == "CrashesAtFull" else "no answer within the time limit") in broken[0].message
    assert Counter(c.status for c in report.checks if c.trace != "capacity") == Counter(
        c.status for c in whole.checks if c.trace != "capacity"
    )
    assert report.verdict.text == "incomplete"
    assert report.verdict.exit_code == 3


@pytest.mark.parametrize(
    "name", ["exits_at_once", "behaves", "writes_15_digits", "dies_by_SIGSEGV", "nests_lists"]
)
def test_a_hostile_driver_ends_in_a_verdict(name):
    report = check(f"cmd:{sys.executable} -S -E {HOSTILE} {name}", "core", keyword="ch37")
    assert report.verdict.text in ("incomplete", "not conformant")
    assert report.verdict.exit_code in (1, 3)
