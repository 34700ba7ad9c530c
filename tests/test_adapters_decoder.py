"""The decoders behind the adapter of their level: what they translate, and what the exact one shows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from conformance.adapter import Declaration
from conformance.adapters.exact_decoder import exact_decoder
from conformance.adapters.forge_decoder import forge
from conformance.adapters.naming import BUILT_IN, resolve
from conformance.adapters.numpy_decoder import numpy_decoder
from conformance.contract import profile_requirements
from conformance.judge import judge
from conformance.player import play
from conformance.rejections import Rejected
from conformance.scenarios.decoder_material import decoder_config, decoder_parameters, token_block
from conformance.suite import traces
from conformance.values import Observation

CONFIG = decoder_config()
TOKENS = token_block(CONFIG, 2, 6)


def opened(adapter: Any, capacity: int = 6) -> tuple[Any, Any]:
    model = adapter.build_model(CONFIG, decoder_parameters(CONFIG))
    return model, adapter.open(model, 2, capacity)


def refusal(act: Any, *given: Any, **named: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        act(*given, **named)
    return caught.value


@pytest.mark.parametrize("name", ["numpy-decoder", "exact-decoder", "forge", "forge-float64"])
def test_the_decoders_have_names(name: str) -> None:
    adapter = resolve(name)
    assert name in BUILT_IN
    assert adapter.declaration.name == name
    assert adapter.declaration.levels == ("decoder",)


EXACT = (
    "ch38/", "decoder-prompt-2", "decoder-multi-query", "decoder-reset-replay-1", "decoder-closed",
    "decoder-refused-token-negative", "decoder-refused-full", "decoder-overflow-hidden-2",
    "decoder-overflow-final-norm-2", "decoder-overflow-head-0", "decoder-reopened-stale-final",
    "decoder-reopened-configuration-pairing", "decoder-locked-by-another",
)  # fmt: skip


def test_the_exact_decoder_conforms_wherever_it_can_be_seen() -> None:
    adapter = exact_decoder()
    played = [t for t in traces(adapter.declaration) if t.id.startswith(EXACT)]
    assert len(played) >= len(EXACT)
    checks = [c for t in played for c in judge(play(t, adapter), adapter.declaration)]
    assert {c.requirement for c in checks if c.status not in ("pass", "unobserved")} == set()
    # A replay in a file is asked for evidence too, which no decoder has.
    assert {c.requirement for c in checks if c.status == "unobserved"} <= {
        "DECODE-RESET-STORAGE", "DECODE-ATOMIC-STORAGE", "DECODE-ATOMIC-WORK", "DECODE-RESET-REPLAY",
    }  # fmt: skip


def test_what_the_exact_decoder_cannot_show_is_storage_and_work() -> None:
    adapter = exact_decoder()
    asked = profile_requirements("decoder", "decoder")
    declined = {e.id for e in asked if e.needs - adapter.declaration.features}
    assert declined == {
        "DECODE-RESET-STORAGE", "DECODE-STORAGE", "DECODE-LAYERS-APART", "DECODE-ATOMIC-STORAGE",
        "DECODE-WORK", "DECODE-RESET-WORK",
    }  # fmt: skip
    assert not declined & {e.id for e in profile_requirements("core", "decoder")}


def test_the_exact_decoder_and_the_session_agree_to_a_few_roundings() -> None:
    exact, session = (opened(adapter)[1] for adapter in (exact_decoder(), numpy_decoder()))
    pairs = (exact_decoder(), exact), (numpy_decoder(), session)
    one, other = (adapter.prefill(own, TOKENS[:, :4]) for adapter, own in pairs)
    assert 0 < np.abs(one - other).max() < 1e-13


def test_the_exact_decoder_refuses_what_float64_cannot_hold() -> None:
    adapter, weights = exact_decoder(), decoder_parameters(CONFIG)
    weights["final_norm.gain"] = np.full(8, 1.7e308)
    session = adapter.open(adapter.build_model(CONFIG, weights), 1, 4)
    assert refusal(adapter.prefill, session, TOKENS[:1, :2]).kind == "non_finite"
    assert adapter.observe(session, 0).length == 0


def test_a_stale_parameter_is_named_with_both_revisions() -> None:
    for adapter in (numpy_decoder(), exact_decoder()):
        model, session = opened(adapter)
        adapter.prefill(session, TOKENS[:, :2])
        adapter.close(session)
        for _ in range(2):
            adapter.update_parameters(model, {"blocks.0.attention.key.weight": np.ones((8, 8))})
        refused = refusal(adapter.reopen, session, model)
        assert refused.kind == "stale_parameters"
        assert (refused.parameter, refused.expected, refused.found) == (3, 0, 2)


def test_refusals_of_the_session_carry_what_was_asked_and_found() -> None:
    adapter = numpy_decoder()
    _, session = opened(adapter, capacity=3)
    bad = TOKENS[:, :2].copy()
    bad[1, 0] = 9
    refused = refusal(adapter.prefill, session, bad)
    assert refused.kind == "token_out_of_vocabulary"
    assert (refused.index, refused.value, refused.expected) == (2, 9.0, 7)
    refused = refusal(adapter.prefill, session, TOKENS[:, :5])
    assert (refused.kind, refused.expected, refused.found) == ("prompt_exceeds_capacity", 3, 5)
    refused = refusal(adapter.prefill, session, TOKENS[:1, :2])
    assert (refused.kind, refused.expected, refused.found) == ("input_batch_mismatch", 2, 1)
    assert refusal(adapter.prefill, session, TOKENS[0]).found == 1
    assert refusal(adapter.open, session.model, 0, 4).kind == "zero_batch_size"


def test_an_overflow_names_the_stage_and_the_first_number() -> None:
    adapter, weights = numpy_decoder(), decoder_parameters(CONFIG)
    weights["final_norm.gain"] = np.full(8, 1.7e308)
    session = adapter.open(adapter.build_model(CONFIG, weights), 1, 4)
    with np.errstate(all="ignore"):
        refused = refusal(adapter.prefill, session, TOKENS[:1, :2])
    assert (refused.kind, refused.stage) == ("non_finite", "final_norm")
    assert refused.index is not None
    assert refused.value is not None
    assert not np.isfinite(refused.value)


def test_layers_of_unequal_length_are_refused_by_the_session_itself() -> None:
    adapter = numpy_decoder()
    _, session = opened(adapter)
    adapter.prefill(session, TOKENS[:, :2])
    session.cache.layers[1].reset()
    assert refusal(adapter.decode, session, TOKENS[:, 2]).kind == "layer_mismatch"


def test_the_session_is_observed_layer_by_layer_with_its_work() -> None:
    adapter = numpy_decoder()
    _, session = opened(adapter)
    adapter.prefill(session, TOKENS[:, :3])
    seen = [adapter.observe(session, layer) for layer in range(3)]
    assert [view.length for view in seen] == [3, 3, 3]
    assert seen[0].keys.shape == (2, 2, 3, 4)
    assert seen[0].storage[0].shape == (2, 2, 6, 4)
    assert seen[2].extra["work"]["prefill_tokens"] == 6


def test_forge_shows_an_empty_slot_as_nothing_and_grows_without_limit() -> None:
    adapter = forge()
    model, session = opened(adapter, capacity=1)
    assert adapter.observe(session, 1) == Observation(0)
    adapter.prefill(session, TOKENS[:, :5])
    adapter.decode(session, TOKENS[:, 5])
    seen = adapter.observe(session, 2)
    assert (seen.length, seen.capacity, seen.keys.dtype) == (6, None, np.float32)
    assert model.position == 6
    adapter.full_prefix(model, TOKENS)
    assert model.position == 6
    adapter.reset(session)
    assert (model.position, adapter.observe(session, 2).length) == (0, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")
def test_the_session_conforms_from_a_process_of_its_own_as_well() -> None:
    wanted = (
        "prompt-2", "reopened-rebuilt-final", "reopened-configuration-base", "decoder-work", "ch38/reopened",
    )  # fmt: skip
    with resolve("isolated:numpy-decoder") as adapter:
        declaration: Declaration = adapter.declaration
        played = [t for t in traces(declaration) if any(name in t.id for name in wanted)]
        checks = [c for t in played for c in judge(play(t, adapter), declaration)]
    assert len(played) >= 5
    assert {c.status for c in checks} == {"pass"}
    assert {"DECODE-WORK", "DECODE-STORAGE", "DECODE-REFUSE-MODEL"} <= {c.requirement for c in checks}
