"""Search on decoders: silent on right ones, quick on faulty ones, refusals by the state, saved traces."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis.strategies import just

from conformance.adapter import Declaration
from conformance.adapters.forge_decoder import forge_float64
from conformance.adapters.numpy_decoder import numpy_decoder
from conformance.judge import Check, judge
from conformance.killers import killers
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.player import play
from conformance.search import run, search
from conformance.search.decoder_calls import (
    Decode,
    Fill,
    OverwriteInput,
    OwnPass,
    Prefill,
    Replay,
    Reset,
    WrongForm,
)
from conformance.search.decoder_program import DecoderCommand, DecoderProgram
from conformance.search.decoder_sessions import NONE, Alternate, Another, Close, Reopen, Scene, Update
from conformance.search.decoder_state import DecoderSetting
from conformance.search.saved import save
from conformance.trace.expect import Refused
from conformance.trace.model import Trace
from conformance.trace.yaml import load

SEED = 20261129
KILLERS = {killer.id: killer for killer in killers() if killer.level == "decoder"}
FAR = 1000
CONFORMANT = sorted(name for name in KILLERS if not name.startswith("forge"))
"""Killers on a clean base that breaks no rule itself."""
DRAWN = random.Random(SEED).sample(CONFORMANT, 4)
SMALL = DecoderSetting(lanes=2, capacity=4, blocks=2, heads=2, head_width=4, options=(), weights=0, stream=0)
EVERYTHING: tuple[DecoderCommand, ...] = (
    Decode(0, 0), Prefill(0, 6, 0), Prefill(0, 0, 0), Prefill(0, 2, 1), WrongForm(0, 2), Prefill(0, 1, 0),
    WrongForm(0, 1), Prefill(0, 6, -1), Decode(0, -1), OwnPass(0), OverwriteInput(0), Fill(0, 1), Reset(0, 1),
    Decode(0, 0), Replay(0, 1, 2), Update(3, False), Alternate(1), Close(0), Decode(0, 0), Reset(0, 0),
    Update(3, False), Reopen(1, NONE, False, NONE, NONE), Decode(1, 0), Close(1), Update(4, False),
    Decode(1, 0), Another(0), Prefill(2, 2, 0), OwnPass(2), Reopen(1, NONE, False, NONE, NONE),
    Reopen(2, NONE, False, 3, NONE), Reopen(2, NONE, False, NONE, 1), Reopen(2, 0, True, -1, 2), Scene(0),
)  # fmt: skip
"""Every command, in states of every kind."""


def findings(adapter: Any, *commands: DecoderCommand, setting: DecoderSetting = SMALL) -> list[Check]:
    declaration: Declaration = adapter.declaration
    trace = DecoderProgram(setting, commands).trace(declaration, "program")
    checks = judge(play(trace, adapter), declaration)
    return [c for c in checks if c.status in ("fail", "error")]


def made(*commands: DecoderCommand, setting: DecoderSetting = SMALL, **changes: Any) -> Trace:
    declaration = replace(OpenDecoderAdapter().declaration, **changes)
    return DecoderProgram(setting, commands).trace(declaration, "program")


def refusals(trace: Trace) -> list[tuple[str, str]]:
    """Requirement and first kind of every refusal that is asked, in order."""
    return [(e.requirement, e.kinds[0]) for s in trace.steps for e in s.expect if isinstance(e, Refused)]


def test_a_right_decoder_is_left_alone() -> None:
    outcome = search(numpy_decoder(), budget=1.5, seed=SEED)
    assert outcome.played > 10
    assert outcome.found is None


def test_what_follows_a_call_that_broke_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """forge raises at an unknown token with its counter moved on, so that the next token stands wrong."""
    setting = replace(SMALL, options=("grouped",))
    broken = DecoderProgram(setting, (Prefill(0, 2, 0), Decode(0, 1 + FAR), Decode(0, 0)))
    right = DecoderProgram(setting, (Prefill(0, 2, 0), Decode(0, 0)))
    for program, profile, is_found in (
        (broken, "gqa", False),
        (broken, "decoder", True),
        (right, "core", False),
    ):
        monkeypatch.setattr(run, "programs", lambda _, only=program: just(only))
        outcome = search(forge_float64(), budget=1.5, profiles=[profile], shrink=False)
        assert outcome.played >= 1
        assert (outcome.found is not None) == is_found


@pytest.mark.parametrize("name", DRAWN)
def test_killers_drawn_by_seed_are_found_again(name: str) -> None:
    outcome = search(KILLERS[name].make(), budget=10.0, seed=SEED, shrink=False)
    assert outcome.found is not None


@pytest.mark.parametrize("factory", [numpy_decoder, OpenDecoderAdapter])
def test_every_command_is_played_by_right_decoders(factory: Any) -> None:
    assert findings(factory(), *EVERYTHING) == []


def test_every_command_asks_its_refusals_by_the_state() -> None:
    asked = refusals(made(*EVERYTHING))
    assert asked[:9] == [
        ("DECODE-REFUSE-DECODE-FIRST", "prefill_required"),
        ("DECODE-REFUSE-LONG-PROMPT", "prompt_exceeds_capacity"),
        ("DECODE-REFUSE-EMPTY-PROMPT", "empty_prompt"),
        ("DECODE-REFUSE-TOKEN", "token_out_of_vocabulary"),
        ("DECODE-REFUSE-FORM", "input_rank"),
        ("DECODE-REFUSE-FORM", "input_rank"),
        ("DECODE-REFUSE-ORDER", "prompt_exceeds_capacity"),
        ("DECODE-REFUSE-TOKEN", "token_out_of_vocabulary"),
        ("DECODE-REFUSE-FULL", "full"),
    ]
    assert asked[9:] == [
        ("DECODE-RESET-PHASE", "prefill_required"),
        ("DECODE-REFUSE-LOCKED", "parameters_locked"),
        ("DECODE-REFUSE-CLOSED", "session_closed"),
        ("DECODE-REFUSE-CLOSED", "session_closed"),
        ("DECODE-REFUSE-LOCKED", "parameters_locked"),
        ("DECODE-REFUSE-STALE", "stale_parameters"),
        ("DECODE-REFUSE-STALE", "stale_parameters"),
        ("DECODE-REFUSE-MODEL", "model_mismatch"),
        ("DECODE-REFUSE-CONFIGURATION", "configuration_mismatch"),
        ("DECODE-REFUSE-ORDER", "model_mismatch"),
        ("DECODE-REFUSE-BLOCK", "non_finite"),
    ]


def test_only_declared_features_are_used() -> None:
    plain = made(*EVERYTHING, features=frozenset())
    assert not {s.op for s in plain.steps} & {"update", "rewire", "reopen", "full_prefix"}
    assert "DECODE-WORK" not in plain.requirements()
    assert "DECODE-WORK" in made(*EVERYTHING).requirements()


def test_a_growing_decoder_is_not_asked_for_a_row_too_many() -> None:
    asked = {kind for _, kind in refusals(made(Fill(0, 1), Prefill(0, 6, 0), capacity="growing"))}
    assert asked == {"prefill_not_empty"}


def test_prompts_in_parts_are_taken_where_chunks_are_declared() -> None:
    trace = made(Prefill(0, 2, 0), Prefill(0, 1, 0), features=frozenset({"chunks", "work"}))
    assert refusals(trace) == []
    assert "DECODE-CHUNKS" in trace.with_steps(trace.steps[1:]).requirements()
    assert "DECODE-WORK" not in trace.with_steps(trace.steps[1:]).requirements()


def test_a_decoder_of_its_own_architecture_is_asked_for_nothing_that_needs_the_formula() -> None:
    trace = made(*EVERYTHING, weights="own")
    assert refusals(trace) == []
    assert set(trace.requirements()) == {
        "DECODE-LENGTH", "DECODE-OWN-PASS-APART", "DECODE-RESET-LENGTH", "DECODE-RESET-REPLAY",
        "DECODE-SELF-AGREEMENT", "DECODE-SESSIONS", "DECODE-TOKENS",
    }  # fmt: skip


def test_what_two_sessions_do_to_each_other_is_filed_as_theirs() -> None:
    found = findings(forge_float64(), Prefill(0, 2, 0), Alternate(2))
    assert {c.requirement for c in found} == {"DECODE-SESSIONS"}
    assert findings(forge_float64(), Prefill(0, 2, 0), Decode(0, 0), Reset(0, 1), Fill(0, 1)) == []


def test_wrong_numbers_of_an_option_are_filed_under_it() -> None:
    setting = replace(SMALL, options=("untied", "biases"))
    found = findings(KILLERS["decoder_always_tied"].make(), Prefill(0, 1, 0), setting=setting)
    assert {c.requirement for c in found} == {"DECODE-UNTIED"}


@pytest.mark.parametrize("number", range(8))
def test_scenes_catch_what_is_written_before_the_head(number: int) -> None:
    # The later ones overflow in the final norm and in the head, behind all blocks.
    found = findings(KILLERS["decoder_commit_before_head"].make(), Prefill(0, 2, 0), Scene(number))
    assert ("DECODE-ATOMIC-ROWS" in {c.requirement for c in found}) == (number >= 6)


def test_what_is_found_is_shrunk_saved_and_replays_anywhere(tmp_path: Path) -> None:
    killer = KILLERS["decoder_decode_at_zero"]
    outcome = search(killer.make(), budget=3.0, seed=SEED)
    assert outcome.found is not None
    assert [step.op for step in outcome.found.trace.steps] == ["prefill", "decode"]
    (trace,) = load(save(outcome, "a killer", tmp_path)).traces()
    assert "fail" in {c.status for c in judge(play(trace, killer.make()), killer.make().declaration)}
    clean = OpenDecoderAdapter()
    assert {c.status for c in judge(play(trace, clean), clean.declaration)} == {"pass"}


def test_a_trace_of_every_command_survives_its_file(tmp_path: Path) -> None:
    outcome = search(KILLERS["decoder_gelu"].make(), budget=1.0, seed=SEED, shrink=False)
    assert outcome.found is not None
    everything = replace(outcome, found=replace(outcome.found, trace=made(*EVERYTHING)))
    (trace,) = load(save(everything, "a killer", tmp_path)).traces()
    assert [s.op for s in trace.steps] == [s.op for s in made(*EVERYTHING).steps]
    for clean in (OpenDecoderAdapter(), numpy_decoder()):
        checks = judge(play(trace, clean), clean.declaration)
        assert {c.status for c in checks} <= {"pass", "unobserved"}
