"""A few killers and controls, played in full; the whole matrix is run by a command of its own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from conformance.judge import judge
from conformance.kill_matrix import clean, run
from conformance.kill_matrix.kept import kept_traces
from conformance.kill_matrix.run import killed, played, subjects
from conformance.kill_matrix.timing import median_seconds
from conformance.killers.controls.model import Control
from conformance.killers.model import Killer
from conformance.killers.open_attention import OpenAttentionAdapter
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import OpenCache
from conformance.killers.rounding import to_bfloat16
from conformance.player import Playthrough, capture, play
from conformance.scenarios import scenarios
from conformance.trace.model import Trace

BY_ID = {subject.id: subject for subject in subjects()}

SAMPLE = ("rope_offset_plus1", "identity_by_value", "attention_fork_shares_values")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_killer_is_caught_by_what_it_violates(name: str) -> None:
    row, _ = played(BY_ID[name])
    assert row.violates in row.caught


@pytest.mark.parametrize("name", ["attention_online", "numpy_attention"])
def test_a_control_is_not_flagged_and_tells_what_was_looked_at(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_looked", set())
    row, looks = played(BY_ID[name])
    assert row.reasons == ()
    assert row.cells == ()
    assert any(look.requirement == "AGREE-OUTPUT" and look.kind == "close output" for look in looks)
    assert any(look.kind == "frame" for look in looks)
    assert played(BY_ID[name])[1] == frozenset(), "the looks of one declaration are told once"


def test_a_control_that_is_a_killer_would_be_flagged() -> None:
    """The fault of a killer under the name of a control: what keeps controls honest."""
    fault = BY_ID["attention_scale_none"].make
    row, _ = played(Control("scale_none", "not scaled", fault, level="attention"))
    assert any(reason.startswith("AGREE-OUTPUT fail") for reason in row.reasons)


def test_the_median_killer_is_seen_soon() -> None:
    """0.3 s on a quiet machine; three times as much is allowed, because tests share theirs."""
    drawn = tuple(BY_ID[name] for name in SAMPLE)
    assert median_seconds(drawn) < 0.9


def test_without_its_copies_the_player_would_miss_a_spoilt_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal spoils a row in place; views shown before and after the call are one and the same array."""
    adapter = BY_ID["refusal_changes_value_row"].make()
    trace = next(t for t in scenarios(adapter.declaration) if t.id == "refused-full")

    def statuses() -> set[str]:
        checks = judge(play(trace, adapter), adapter.declaration)
        return {check.status for check in checks if check.requirement == "ATOMIC-ROWS"}

    assert "fail" in statuses()
    monkeypatch.setattr(capture, "copy", lambda given, what: np.asarray(given))
    assert statuses() == {"pass"}


def test_findings_alone_are_those_of_the_whole_judgement() -> None:
    adapter = BY_ID["rope_1_based_k"].make()
    trace = next(t for t in scenarios(adapter.declaration) if t.id == "append-five")
    playthrough = play(trace, adapter)
    everything = judge(playthrough, adapter.declaration)
    findings = judge(playthrough, adapter.declaration, findings_only=True)
    assert findings == [check for check in everything if check.status != "pass"]
    assert findings
    assert {check.kind for check in findings} >= {"close output", "close keys"}


def test_a_call_that_went_astray_is_filed_under_the_one_look_that_asks_for_it() -> None:
    adapter = BY_ID["updated_layer_gives_no_cache"].make()
    trace = next(t for t in scenarios(adapter.declaration) if t.id == "stale-key")
    checks = judge(play(trace, adapter), adapter.declaration)
    found = {c.kind for c in checks if c.requirement == "BIND-NEW-CACHE" and c.status == "fail"}
    assert found == {"accepted"}


@pytest.mark.parametrize("one_row", [False, True])
@pytest.mark.parametrize("clean", [OpenLayerAdapter, OpenAttentionAdapter])
def test_the_clean_classes_declare_what_they_are(clean: Any, one_row: bool) -> None:
    declared = type("_Clean", (clean,), {"one_row": one_row})().declaration
    assert ("chunks" in declared.features) is not one_row
    assert declared.rows_per_append == ("one" if one_row else "any")


def test_bfloat16_is_rounded_to_even() -> None:
    """1 + 2^-8 lies between 1 and 1 + 2^-7 and goes to the even 1; 1 + 3 * 2^-8 goes up."""
    given = np.array([1.0 + 2.0**-8, 1.0 + 3.0 * 2.0**-8, -0.0, 3.0])
    assert to_bfloat16(given).tolist() == [1.0, 1.0 + 2.0**-6, -0.0, 3.0]
    assert np.signbit(to_bfloat16(given)[2])


KILLERS = [subject for subject in subjects() if not isinstance(subject, Control)]
DRAWN = random.Random(20261129).sample(KILLERS, 16)


@pytest.mark.parametrize("killer", DRAWN, ids=[killer.id for killer in DRAWN])
def test_what_the_clean_class_has_shown_already_changes_no_cell(killer: Killer) -> None:
    assert killed(killer) == killed(killer, everything=True)


def test_a_killer_is_played_only_where_a_method_of_its_own_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    class ForgetsNothing(OpenLayerAdapter):
        def reset(self, cache: OpenCache) -> None:
            """Keep everything."""

    adapter = ForgetsNothing()
    plan = {trace.id: trace for trace in kept_traces(adapter.declaration)}
    beside = clean.AgainstClean(adapter, adapter.declaration)
    own_plays = []

    def played_by(trace: Trace, player: Any) -> Playthrough:
        own_plays.append((trace.id, player is adapter))
        return play(trace, player)

    monkeypatch.setattr(clean, "play", played_by)
    assert beside.findings(plan["append-five"]) == []
    assert ("append-five", True) not in own_plays
    assert "RESET-LENGTH" in {check.requirement for check in beside.findings(plan["reset-empty"])}
    assert ("reset-empty", True) in own_plays
