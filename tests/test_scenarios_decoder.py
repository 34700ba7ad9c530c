"""Level decoder: what conforms, what forge's design cannot, and that every planted fault is caught."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from conformance.adapter import Declaration, Precision
from conformance.adapters.forge_decoder import ForgeDecoderAdapter
from conformance.adapters.numpy_decoder import NumpyDecoderAdapter, numpy_decoder
from conformance.check import check
from conformance.contract import PROFILES, all_requirements, profile_requirements
from conformance.judge import judge
from conformance.judge.findings import Check
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.player import play
from conformance.scenarios.decoder_material import decoder_parameters, decoder_rows
from conformance.scenarios.decoder_overflow import POISON
from conformance.scenarios.decoder_overflow import traces as overflow_traces
from conformance.suite import traces
from conformance.trace.model import Trace
from conformance.trace.yaml import dump, load
from conformance.trace.yaml_from_trace import from_trace
from conformance.values import Observation
from conformance.verdict import default_profiles, verdict

Array = np.ndarray[Any, Any]
EMBEDDED = numpy_decoder().declaration


@cache
def _suite(levels: tuple[str, ...], features: frozenset[str], capacity: Any, dtype: str) -> tuple[Trace, ...]:
    adapter = ForgeDecoderAdapter(dtype) if capacity == "growing" else None
    declared = Declaration(name="x", levels=levels, features=features, rows_per_append="any")
    return tuple(traces(adapter.declaration if adapter else declared))


def suite(declaration: Declaration) -> tuple[Trace, ...]:
    """The traces of a declaration, made once for all killers that declare the same."""
    return _suite(declaration.levels, declaration.features, declaration.capacity, declaration.dtypes[0])


def checks(adapter: Any, played: Any) -> Iterator[Check]:
    for trace in played:
        yield from judge(play(trace, adapter), adapter.declaration)


@cache
def _seen(make: Any) -> tuple[Declaration, tuple[Check, ...]]:
    adapter = make()
    return adapter.declaration, tuple(checks(adapter, traces(adapter.declaration)))


def forge32() -> ForgeDecoderAdapter:
    return ForgeDecoderAdapter("float32")


def forge64() -> ForgeDecoderAdapter:
    return ForgeDecoderAdapter("float64")


def standings(make: Any, profile: str) -> dict[str, set[str]]:
    """Ids by standing, those that pass left out; `make` is played once for all profiles."""
    declaration, seen = _seen(make)
    found: dict[str, set[str]] = {}
    for result in verdict((profile,), declaration, seen).profiles[0].results:
        found.setdefault(result.standing, set()).add(result.requirement.id)
    found.pop("pass", None)
    return found


def test_the_embedded_session_conforms_to_every_profile_of_its_level() -> None:
    report = check("numpy-decoder")
    assert report.verdict.text == "conformant"
    assert [p.profile for p in report.verdict.profiles] == ["decoder", "self-agreement", "gqa"]
    for profile in report.verdict.profiles:
        assert profile.count("pass") == len(profile.results), profile.profile


def test_the_open_decoder_that_killers_are_planted_in_conforms_too() -> None:
    for profile in ("decoder", "core", "self-agreement", "gqa"):
        assert standings(OpenDecoderAdapter, profile) == {}


# What forge's design cannot meet; docs/systems/forge.md says why of each.
FORGE = {
    "no validation": {
        "DECODE-REFUSE-EMPTY-PROMPT", "DECODE-REFUSE-TOKEN", "DECODE-REFUSE-FORM", "DECODE-REFUSE-ORDER",
        "DECODE-REFUSE-BLOCK", "DECODE-REFUSE-NORM", "DECODE-REFUSE-HEAD",
    },
    "no phases": {
        "DECODE-REFUSE-SECOND-PREFILL", "DECODE-REFUSE-DECODE-FIRST", "DECODE-RESET-PHASE",
        "DECODE-REFUSE-CLOSED",
    },
    "no binding": {"DECODE-REFUSE-LOCKED", "DECODE-REFUSE-STALE"},
    "no atomicity": {"DECODE-ATOMIC-LENGTH", "DECODE-ATOMIC-ROWS", "DECODE-ATOMIC-FUTURE"},
    "one counter a model": {"DECODE-SESSIONS"},
}  # fmt: skip


def test_forge_fails_what_its_design_cannot_meet_and_nothing_else() -> None:
    found = standings(forge64, "decoder")
    assert found["fail"] | found["error"] == set().union(*FORGE.values())
    assert found["declined"] == {
        "DECODE-LAYERS-APART", "DECODE-RESET-WORK", "DECODE-WORK", "DECODE-REFUSE-MODEL",
        "DECODE-REFUSE-CONFIGURATION",
    }  # fmt: skip
    assert {"DECODE-REFUSE-FULL", "DECODE-REFUSE-LONG-PROMPT"} <= found["unobserved"]


def test_forge_in_core_lacks_atomicity_and_a_counter_for_each_session() -> None:
    found = standings(forge64, "core")
    assert found == {"fail": FORGE["no atomicity"] | FORGE["one counter a model"]}


@pytest.mark.parametrize("forge", [forge32, forge64])
def test_forge_agrees_with_itself_and_takes_prompts_in_any_parts(forge: Any) -> None:
    assert standings(forge, "self-agreement") == {"fail": {"DECODE-SESSIONS"}}
    assert standings(forge, "chunks") == {}
    assert standings(forge, "gqa") == {}


def test_the_gate_and_the_measured_gap_of_six_tokens_are_shown() -> None:
    adapter = ForgeDecoderAdapter("float32")
    own = [t for t in suite(adapter.declaration) if t.id == "decoder-own-pass-1"]
    (seen,) = [c for c in checks(adapter, own) if c.requirement == "DECODE-SELF-AGREEMENT"]
    assert seen.status == "pass"
    assert seen.difference is not None
    assert 0 < seen.difference.difference < 1e-5 <= seen.difference.bound
    assert seen.message == f"largest gap {seen.difference.difference:.3g}, gate {seen.difference.bound:.3g}"


class LastRow(NumpyDecoderAdapter):
    """Hands out only the last row of a prefill."""

    def __init__(self) -> None:
        super().__init__()
        self.declaration = replace(self.declaration, prefill_logits="last")

    def prefill(self, session: Any, tokens: Any) -> Any:
        return super().prefill(session, tokens)[:, -1:]


class Unrotated(OpenDecoderAdapter):
    """Keeps keys as projected and rotates them when they are read."""

    @property
    def declaration(self) -> Declaration:
        return replace(super().declaration, keys="unrotated", name="unrotated")

    def observe(self, session: Any, layer: int) -> Observation:
        seen = super().observe(session, layer)
        if session.config.positions != "rope" or not seen.length:
            return seen
        width = session.config.layer.head_width
        angle = np.arange(seen.length)[:, None] * 100.0 ** (-2.0 * np.arange(width // 2) / width)
        half = session.config.layer.rope.pairing == "half"
        left, right = slice(0, None, 2), slice(1, None, 2)
        if half:
            left, right = slice(0, width // 2), slice(width // 2, None)
        keys = np.empty_like(seen.keys)
        keys[..., left] = seen.keys[..., left] * np.cos(angle) + seen.keys[..., right] * np.sin(angle)
        keys[..., right] = seen.keys[..., right] * np.cos(angle) - seen.keys[..., left] * np.sin(angle)
        return replace(seen, keys=keys)


class Unreadable(NumpyDecoderAdapter):
    """Shows lengths alone."""

    def __init__(self) -> None:
        super().__init__()
        self.declaration = replace(self.declaration, features=frozenset({"full_prefix"}), keys="unreadable")

    def observe(self, session: Any, layer: int) -> Observation:
        return Observation(super().observe(session, layer).length)


@pytest.mark.parametrize("adapter", [LastRow, Unrotated, Unreadable])
def test_other_lawful_ways_to_show_the_same_decoder_conform_to_core(adapter: Any) -> None:
    made = adapter()
    asked = [t for t in traces(made.declaration) if "reopened" not in t.id]
    assert verdict(("core",), made.declaration, checks(made, asked)).text == "conformant"


class OwnArchitecture(ForgeDecoderAdapter):
    """A decoder that the kit knows nothing of: other weights, one block, a vocabulary of its own."""

    def __init__(self) -> None:
        super().__init__("float64")
        self.declaration = replace(self.declaration, weights="own", features=frozenset({"full_prefix"}))

    def build_model(self, config: Any, parameters: Any) -> Any:
        own = replace(config, vocabulary=23, layers=1, feed_forward_width=9, positions="learned", tied=False)
        return super().build_model(own, decoder_parameters(own, shift=5))


class OwnWithoutMask(OwnArchitecture):
    def prefill(self, session: Any, tokens: Any) -> Array:
        parts = [self.decode(session, tokens[:, t]) for t in range(tokens.shape[1])]
        return np.concatenate(parts[::-1], axis=1)


def test_a_decoder_of_its_own_architecture_is_held_against_itself() -> None:
    assert default_profiles(OwnArchitecture().declaration, embedded=False) == ("self-agreement",)
    assert standings(OwnArchitecture, "self-agreement") == {"fail": {"DECODE-SESSIONS"}}
    found = standings(OwnWithoutMask, "self-agreement")["fail"]
    assert {"DECODE-SELF-AGREEMENT", "DECODE-CAUSAL"} <= found


def test_what_the_formula_alone_can_say_is_not_asked_of_an_own_architecture() -> None:
    asked = {name for t in suite(EMBEDDED) for name in t.requirements()}
    own = {name for t in traces(OwnArchitecture().declaration) for name in t.requirements()}
    listed = {e.id for e in profile_requirements("self-agreement", "decoder")}
    assert own <= listed | {"DECODE-RESET-STORAGE"}
    assert "DECODE-LOGITS" in asked - own


def test_profiles_of_the_level_list_what_they_should() -> None:
    core, session = (
        {e.id for e in profile_requirements(name, "decoder")} for name in ("core", "decoder")
    )
    assert core < session
    assert not any("REFUSE" in name for name in core)
    unlisted = {e.id for e in all_requirements() if e.id.startswith("DECODE") and not e.profiles}
    assert unlisted == {"DECODE-INSIDE-LAYER-MISMATCH", "DECODE-INSIDE-TICKET", "DECODE-INSIDE-STOP"}
    assert PROFILES["decoder"].embedded == "numpy-decoder"


def test_tokens_and_weights_of_the_material_can_show_a_fault() -> None:
    rows = decoder_rows(EMBEDDED)
    assert len({tuple(lane) for lane in rows.tokens}) == rows.lanes
    assert {rows.lanes, 3, rows.config.layer.heads * 4, 6, 7, 5} == {2, 3, 8, 6, 7, 5}
    weights = list(rows.parameters.values())
    for index, one in enumerate(weights):
        assert np.array_equal(one * 16, np.round(one * 16))
        assert not any(one.shape == other.shape and np.array_equal(one, other) for other in weights[:index])
    assert np.abs(rows.expected.logits).max() < 50


def test_lawful_tokens_never_meet_the_weights_that_overflow() -> None:
    huge = list(overflow_traces(decoder_rows(EMBEDDED)))
    assert len(huge) == 8
    for trace in huge:
        weights = trace.layers["a"].parameters  # type: ignore[union-attr]
        assert all(np.isfinite(value).all() for value in weights.values())  # type: ignore[union-attr]
        poisoned = [s for s in trace.steps if (s.inputs["tokens"] == POISON).any()]
        assert [s.label.startswith("a token that overflows") for s in poisoned] == [True]


def test_traces_of_the_level_survive_a_file() -> None:
    adapter = numpy_decoder()
    names = ("prompt-3", "sessions", "refused-full", "reopened-rebuilt-final", "locked", "work", "stale-head")
    chosen = [t for t in suite(EMBEDDED) if any(name in t.id for name in names)][:9]
    for trace in chosen:
        (again,) = load(dump(from_trace(trace))).traces()
        assert again.needs == trace.needs
        before, after = (
            [(c.requirement, c.status) for c in checks(adapter, [played])] for played in (trace, again)
        )
        assert before == after
        assert before


class InBfloat16(NumpyDecoderAdapter):
    """Claims to keep everything in bfloat16, for which three blocks have no useful bound."""

    def __init__(self) -> None:
        super().__init__()
        coarse = Precision("bfloat16", "float32", "float32", "float32")
        self.declaration = replace(
            self.declaration, precision=coarse, dtypes=("float32",), features=frozenset({"full_prefix"})
        )


def test_a_precision_without_a_useful_bound_ends_unobserved_and_not_passed() -> None:
    adapter = InBfloat16()
    asked = [t for t in traces(adapter.declaration) if t.id in ("decoder-prompt-2", "decoder-own-pass-3")]
    seen = [c for c in checks(adapter, asked) if c.requirement in ("DECODE-LOGITS", "DECODE-KEYS")]
    assert {c.status for c in seen} == {"unobserved"}
    assert "too coarse" in seen[0].message
    assert verdict(("core",), adapter.declaration, seen).text == "incomplete"


class Undelivered(NumpyDecoderAdapter):
    """Declares storage and work, and shows neither."""

    def observe(self, session: Any, layer: int) -> Observation:
        return replace(super().observe(session, layer), storage=None, extra={})


class Squeezed(NumpyDecoderAdapter):
    """Logits of the wrong shape everywhere."""

    def prefill(self, session: Any, tokens: Any) -> Any:
        return super().prefill(session, tokens)[0]

    def full_prefix(self, model: Any, tokens: Any) -> Any:
        return super().full_prefix(model, tokens)[:, 1:]


def test_what_is_declared_and_not_shown_is_an_error() -> None:
    adapter = Undelivered()
    asked = [t for t in suite(EMBEDDED) if t.id in ("decoder-new", "decoder-work", "decoder-prompt-6")]
    broken = {c.requirement for c in checks(adapter, asked) if c.status == "error"}
    assert broken == {"DECODE-LAYERS-APART", "DECODE-WORK", "DECODE-RESET-WORK", "DECODE-STORAGE"}


def test_logits_of_any_shape_are_judged_and_break_nothing() -> None:
    adapter = Squeezed()
    asked = [t for t in suite(EMBEDDED) if "reopened" not in t.id and "overflow" not in t.id]
    seen = list(checks(adapter, asked))
    assert not [c for c in seen if c.status == "error"]
    wrong = {c.requirement for c in seen if c.status == "fail"}
    assert {"DECODE-SHAPE", "DECODE-OWN-PASS", "DECODE-LANES", "DECODE-GREEDY", "DECODE-LOGITS"} <= wrong


class Rounded(NumpyDecoderAdapter):
    """Room for a multiple of eight rows."""

    def __init__(self) -> None:
        super().__init__()
        self.declaration = replace(self.declaration, capacity="rounded")

    def open(self, model: Any, batch_size: int, capacity: int) -> Any:
        most = model.config.layer.rope.max_positions
        return super().open(model, batch_size, min(-8 * (-capacity // 8), most))


class RoundedRing(Rounded):
    def decode(self, session: Any, tokens: Any) -> Any:
        cache = session.cache
        if cache.length == cache.capacity:
            session.cache = type(cache)(session.model, cache.batch_size, cache.capacity)
            session.prefill(np.zeros((cache.batch_size, 1), dtype=int))
        return super().decode(session, tokens)


def test_a_rounded_capacity_is_filled_to_what_it_shows() -> None:
    assert standings(Rounded, "decoder") == {"unobserved": {"DECODE-REFUSE-LONG-PROMPT"}}
    assert standings(Rounded, "core") == {}
    asked = [t for t in traces(RoundedRing().declaration) if t.id == "decoder-rounded"]
    seen = list(checks(RoundedRing(), asked))
    assert "DECODE-REFUSE-FULL" in {c.requirement for c in seen if c.status == "fail"}
