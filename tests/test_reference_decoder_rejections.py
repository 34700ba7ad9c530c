"""Refusals of the decoder: their order, what they carry, and that every layer stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from reference_impl.decoder import (
    DecoderCache,
    DecoderModel,
    commit_tokens,
    decode,
    prefill,
    prepare_tokens,
)
from reference_impl.layer import LayerCache, RopeConfig
from reference_impl.layer_errors import CacheError, StepError
from tests.decoder_models import PUBLISHED_CONFIG, published_parameters


class Call:
    """A call that is lawful until rules are broken on it, then made all at once."""

    def __init__(self, *, held: int, capacity: int = 4) -> None:
        self.model = DecoderModel.build(PUBLISHED_CONFIG, published_parameters())
        self.cache = DecoderCache(self.model, 1, capacity)
        if held:
            prefill(self.model, self.cache, [[0, 1, 2, 3][:held]])
        self.tokens: Any = [2] if held else [[0, 1]]
        self.owner = self.model

    def make(self) -> Any:
        return (decode if np.ndim(self.tokens) == 1 else prefill)(self.model, self.cache, self.tokens)

    def state(self) -> tuple[Any, ...]:
        layers = [(x.length, x.key_storage.tobytes(), x.value_storage.tobytes()) for x in self.cache.layers]
        return layers, self.cache.prefilled, self.cache.work


def empty_prompt(call: Call) -> None:
    call.tokens = [[]]


def long_prompt(call: Call) -> None:
    call.tokens = [[0] * 5]


def unknown_token(call: Call) -> None:
    call.tokens = np.full_like(call.tokens, 5)


def prefilled(call: Call) -> None:
    call.cache.prefilled = True


def not_prefilled(call: Call) -> None:
    call.cache.prefilled = False


def full(call: Call) -> None:
    for layer in call.cache.layers:
        layer._length = 4


def other_node(call: Call) -> None:
    call.model = call.model.rewired(fresh=["blocks.1.ffn.up.weight"])


def other_configuration(call: Call) -> None:
    rope = RopeConfig(200.0, "adjacent", 4)
    changed = replace(call.model.config, layer=replace(call.model.config.layer, rope=rope))
    call.model = call.model.rewired(config=changed)


def stale(call: Call) -> None:
    call.owner.nodes["token_embedding.weight"].update(np.ones((5, 4)))


def unequal_layers(call: Call) -> None:
    call.cache.layers[1]._length += 1


PREFILL: dict[str, Callable[[Call], None]] = {
    "empty_prompt": empty_prompt,
    "prompt_exceeds_capacity": long_prompt,
    "token_out_of_vocabulary": unknown_token,
    "prefill_not_empty": prefilled,
    "model_mismatch": other_node,
    "configuration_mismatch": other_configuration,
    "stale_parameters": stale,
    "layer_mismatch": unequal_layers,
}
DECODE: dict[str, Callable[[Call], None]] = {
    "token_out_of_vocabulary": unknown_token,
    "prefill_required": not_prefilled,
    "full": full,
    "model_mismatch": other_node,
    "configuration_mismatch": other_configuration,
    "stale_parameters": stale,
    "layer_mismatch": unequal_layers,
}


@pytest.mark.parametrize(
    ("phase", "broken"),
    [(phase, kinds)
     for phase, rules in (("prefill", PREFILL), ("decode", DECODE))
     for size in (1, 2)
     for kinds in combinations(rules, size)
     if set(kinds) != {"empty_prompt", "prompt_exceeds_capacity"}
     and set(kinds) != {"empty_prompt", "token_out_of_vocabulary"}],
)
def test_the_first_broken_rule_is_reported_and_nothing_changes(phase: str, broken: tuple[str, ...]) -> None:
    rules = PREFILL if phase == "prefill" else DECODE
    call = Call(held=0 if phase == "prefill" else 2)
    for kind in broken:
        rules[kind](call)
    before = call.state()
    with pytest.raises(CacheError) as caught:
        call.make()
    assert caught.value.kind == broken[0]
    assert call.state() == before


@pytest.mark.parametrize("held", [0, 2])
def test_the_same_call_unbroken_succeeds(held: int) -> None:
    call = Call(held=held)
    call.make()
    assert call.cache.length == (3 if held else 2)


@pytest.mark.parametrize("bad", [-1, 5, 1.5, np.nan, np.inf])
def test_what_is_no_token_is_named_with_its_place(bad: float) -> None:
    call = Call(held=0)
    call.tokens = [[0, bad]]
    with pytest.raises(CacheError) as caught:
        call.make()
    index, token, vocabulary = caught.value.carried()
    assert (caught.value.kind, index, vocabulary) == ("token_out_of_vocabulary", 1, 5)
    assert token == bad or np.isnan(bad)
    assert call.cache.length == 0


def test_whole_numbers_of_any_dtype_are_tokens() -> None:
    calls = [Call(held=0) for _ in range(3)]
    for call, dtype in zip(calls, (np.float64, np.uint8, np.int32), strict=True):
        call.tokens = np.array(call.tokens, dtype=dtype)
    assert len({call.make().tobytes() for call in calls}) == 1


@pytest.mark.parametrize(
    ("held", "tokens", "kind"),
    [
        (0, [[[0]]], "input_rank"),
        (0, [[0], [1]], "input_batch_mismatch"),
        (2, [0, 1], "input_batch_mismatch"),
    ],
)
def test_tokens_of_another_shape_are_refused(held: int, tokens: Any, kind: str) -> None:
    call = Call(held=held)
    call.tokens = tokens
    before = call.state()
    with pytest.raises(CacheError) as caught:
        call.make()
    assert caught.value.kind == kind
    assert call.state() == before


def test_decode_takes_one_axis_and_prefill_two() -> None:
    call = Call(held=2)
    for phase, tokens in ((decode, [[2]]), (prefill, [2])):
        with pytest.raises(CacheError) as caught:
            phase(call.model, call.cache, tokens)
        assert caught.value.kind == "input_rank"


@pytest.mark.parametrize("field", ["batch_size", "capacity"])
def test_layers_of_another_size_are_refused(field: str) -> None:
    call = Call(held=0)
    sizes = {"batch_size": 1, "capacity": 4} | {field: 2}
    call.cache.layers = (call.cache.layers[0], LayerCache(call.model.layers[1], *sizes.values()))
    with pytest.raises(CacheError) as caught:
        call.make()
    assert caught.value.kind == "layer_mismatch"
    assert caught.value.carried() == (1, field, {"batch_size": 1, "capacity": 4}[field], 2)


def test_a_ticket_that_no_longer_matches_names_its_layer_and_no_layer_is_written() -> None:
    call = Call(held=2)
    prepared = prepare_tokens(call.model, call.cache, np.array([[2]]))
    call.cache.layers[1].reset()
    before = call.state()
    with pytest.raises(CacheError, match="ticket 1") as caught:
        commit_tokens(call.cache, prepared)
    assert caught.value.kind == "ticket_mismatch"
    assert call.state() == before


def test_a_dropped_preparation_costs_nothing() -> None:
    call, twin = Call(held=2), Call(held=2)
    before = call.state()
    prepared = prepare_tokens(call.model, call.cache, np.array([[4]]))
    assert call.state() == before
    assert call.make().tobytes() == twin.make().tobytes()
    with pytest.raises(CacheError):
        commit_tokens(call.cache, prepared)


BIG = 1e200
OVERFLOWS = {
    "blocks.0.attention.query": {"blocks.0.attention.query.weight": 1.7e308},
    "blocks.1.attention.value": {"blocks.1.attention.value.weight": 1.7e308},
    "blocks.1.attention.score": dict.fromkeys(
        ["blocks.1.attention.query.weight", "blocks.1.attention.key.weight"], BIG
    ),
    "blocks.1.attention.output": dict.fromkeys(
        ["blocks.1.attention.value.weight", "blocks.1.attention.output.weight"], BIG
    ),
    "blocks.1.ffn_norm.mean_square": {"blocks.1.attention.output.weight": BIG},
    "blocks.1.ffn.hidden": {"blocks.1.ffn.gate.weight": BIG, "blocks.1.ffn.up.weight": BIG},
    "final_norm.mean_square": {"blocks.1.ffn.down.weight": BIG},
    "final_norm": {"final_norm.gain": 1.7e308},
    "head": {"final_norm.gain": BIG, "head.weight": BIG},
}


@pytest.mark.parametrize("stage", OVERFLOWS)
@pytest.mark.parametrize("held", [0, 1])
def test_an_overflow_anywhere_leaves_every_layer_untouched(stage: str, held: int) -> None:
    config = replace(PUBLISHED_CONFIG, tied=False)
    weights = published_parameters()
    # Token 0 is harmless: its embedding is zero, and so is all that follows from it.
    weights["token_embedding.weight"] = np.vstack([np.zeros(4), np.ones((4, 4))])
    weights["head.weight"] = np.ones((4, 5))
    for name, size in OVERFLOWS[stage].items():
        weights[name] = np.full_like(weights[name], size)
    model = DecoderModel.build(config, weights)
    cache, twin = DecoderCache(model, 1, 4), DecoderCache(model, 1, 4)
    for each in (cache, twin) if held else ():
        prefill(model, each, [[0]])
    layers = [(x.key_storage.tobytes(), x.value_storage.tobytes(), x.length) for x in cache.layers]
    before = (layers, cache.prefilled, cache.work)
    with pytest.raises(StepError) as caught:
        decode(model, cache, [3]) if held else prefill(model, cache, [[0, 3]])
    assert (caught.value.kind, caught.value.stage) == ("non_finite", stage)
    assert not np.isfinite(caught.value.cause.carried()[1])
    layers = [(x.key_storage.tobytes(), x.value_storage.tobytes(), x.length) for x in cache.layers]
    assert (layers, cache.prefilled, cache.work) == before
    # The future is untouched too.
    call = (lambda c: decode(model, c, [0])) if held else (lambda c: prefill(model, c, [[0]]))
    assert call(cache).tobytes() == call(twin).tobytes()


def test_a_mismatch_of_nodes_is_reported_before_any_revision() -> None:
    call = Call(held=2)
    stale(call)
    other_node(call)
    with pytest.raises(CacheError) as caught:
        call.make()
    assert (caught.value.kind, caught.value.carried()) == ("model_mismatch", ("blocks.1.ffn.up.weight",))


@pytest.mark.parametrize(
    "change",
    [
        {"norm_epsilon": np.nextafter(1e-6, 1)},
        {"base": np.nextafter(10000.0, 0)},
        {"pairing": "half"},
        {"max_positions": 5},
        {"heads": 1},
    ],
)
def test_any_changed_setting_is_another_configuration(change: dict[str, Any]) -> None:
    call = Call(held=2)
    config = call.model.config
    if "norm_epsilon" in change:
        changed = replace(config, **change)
    elif "heads" in change:
        changed = replace(config, layer=replace(config.layer, heads=1, kv_heads=1, head_width=4))
    else:
        changed = replace(config, layer=replace(config.layer, rope=replace(config.layer.rope, **change)))
    call.model = call.model.rewired(config=changed)
    with pytest.raises(CacheError) as caught:
        call.make()
    assert caught.value.kind == "configuration_mismatch"
