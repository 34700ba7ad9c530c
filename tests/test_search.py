"""Search: silent on right implementations, quick on faulty ones, and what it saves replays anywhere."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.numpy_layer import numpy, numpy_attention, numpy_chunks
from conformance.adapters.numpy_paged import numpy_paged
from conformance.adapters.numpy_store import forge_store, numpy_store
from conformance.cli import main
from conformance.errors import UsageError
from conformance.judge import judge
from conformance.killers import killers
from conformance.killers.controls import controls
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.player import play
from conformance.search import commands, search
from conformance.search.command import seconds_of
from conformance.search.program import Program
from conformance.search.saved import save
from conformance.search.script import Setting
from conformance.trace.yaml import load

SEED = 20261129
KILLERS = {killer.id: killer for killer in killers()}
FOUND_BEFORE = (Path(__file__).parent / "data" / "rediscovered.txt").read_text().split()
"""Killers that were found within three seconds when rediscovery was measured (docs/rediscovery.md)."""
DRAWN = random.Random(SEED).sample([name for name in FOUND_BEFORE if name in KILLERS], 12)


@pytest.mark.parametrize(
    "factory",
    [numpy, numpy_chunks, numpy_attention, numpy_store, numpy_paged, forge_store, OpenLayerAdapter],
)
def test_a_right_implementation_is_left_alone(factory: Any) -> None:
    outcome = search(factory(), budget=1.5, seed=SEED)
    assert outcome.played > 10
    assert outcome.found is None


SETTING = Setting(
    lanes=1, capacity=4, heads=2, kv_heads=2, head_width=4, base=100.0, pairing="adjacent", weights=0
)


@pytest.mark.parametrize(
    "written",
    [
        (commands.Append(0, 1, 0, 1.0), commands.Append(0, 1, 0, 8.0), commands.Probe(0, 0)),
        (commands.Append(0, 1, 0, 1.0), commands.Append(0, 1, 0, 1.0), commands.Append(0, 1, 0, 8.0),
         commands.Probe(0, 0)),
    ],
)  # fmt: skip
def test_a_right_attention_in_float32_may_round_a_probed_row(written: tuple[commands.Command, ...]) -> None:
    adapter = next(c for c in controls() if c.id == "attention_float32").make()
    trace = Program(SETTING, written).trace(adapter.declaration, "probed")
    assert {c.status for c in judge(play(trace, adapter), adapter.declaration)} == {"pass"}


@pytest.mark.parametrize("name", DRAWN)
def test_killers_drawn_by_seed_are_found_again(name: str) -> None:
    outcome = search(KILLERS[name].make(), budget=10.0, seed=SEED, shrink=False)
    assert outcome.found is not None


@pytest.mark.parametrize(
    "name",
    [
        "full_prefix_appends",
        "order_width_before_batch",
        "reset_moves_output",
        "step_hands_out_stored_key",
        "store_only_layer_0_reset",
        "table_one_block_ahead",
        "tile_of_sixty_four_dropped",
        "weights_of_the_caller",
    ],
)
def test_each_kind_of_life_finds_what_it_was_made_for(name: str) -> None:
    outcome = search(KILLERS[name].make(), budget=15.0, seed=SEED, shrink=False)
    assert outcome.found is not None


def test_what_is_found_is_shrunk() -> None:
    outcome = search(KILLERS["pos_always_zero"].make(), budget=8.0, seed=3)
    assert outcome.found is not None
    assert len(outcome.found.trace.steps) <= 3
    assert {step.op for step in outcome.found.trace.steps} == {"append"}


def test_a_saved_counterexample_replays_against_the_killer_and_the_clean_layer(tmp_path: Path) -> None:
    killer = KILLERS["pos_always_zero"]
    outcome = search(killer.make(), budget=4.0, seed=SEED)
    file = save(outcome, "a killer", tmp_path / "found")
    (trace,) = load(file).traces()
    assert "found by search" in trace.about
    broken = judge(play(trace, killer.make()), killer.make().declaration)
    assert "fail" in {c.status for c in broken}
    clean = OpenLayerAdapter()
    assert {c.status for c in judge(play(trace, clean), clean.declaration)} == {"pass"}


def test_the_same_seed_plays_the_same_programs() -> None:
    first, second = (search(KILLERS["scale_none"].make(), budget=5.0, seed=5, shrink=False) for _ in range(2))
    assert first.found is not None
    assert second.found is not None
    assert repr(first.found.program) == repr(second.found.program)


def test_findings_outside_the_asked_profiles_do_not_count() -> None:
    killer = KILLERS["reset_clears"]
    outcome = search(killer.make(), budget=1.5, seed=SEED, profiles=["core"])
    assert outcome.found is None


def test_a_budget_is_a_length_of_time() -> None:
    assert [seconds_of(text) for text in ("30s", "5m", "1h", "2")] == [30.0, 300.0, 3600.0, 2.0]
    for wrong in ("", "0s", "-1s", "s", "five", "1d"):
        with pytest.raises(UsageError, match="length of time"):
            seconds_of(wrong)


def test_the_command_prints_steps_and_findings_and_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "faulty_cache.py"
    module.write_text(
        "from conformance.killers import killers\n"
        "def adapter():\n"
        "    return next(k for k in killers() if k.id == 'reset_noop').make()\n"
    )
    words = ["search", f"{module}:adapter", "--budget", "4s", "--seed", "7", "--save", str(tmp_path / "out")]
    assert main(words) == 1
    printed = capsys.readouterr().out
    assert "RESET-LENGTH" in printed
    assert "seed 7" in printed
    assert (tmp_path / "out" / "counterexample-7.yaml").is_file()
    assert main(["search", "numpy-store", "--budget", "1s", "--seed", "7"]) == 0
    assert "nothing found" in capsys.readouterr().out
