"""Every option of the decoder against the exact decoder, and every way of taking tokens in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reference_impl.decoder import DecoderCache, DecoderConfig, DecoderModel, decode, full_prefix, prefill
from reference_impl.exact_decoder import exact_pass
from reference_impl.layer import Layer, LayerCache, append
from tests.decoder_models import PUBLISHED_CONFIG, config, parameters

Array = np.ndarray[Any, Any]
OPTIONS: dict[str, dict[str, Any]] = {
    "grouped, half": {},
    "adjacent": {"pairing": "adjacent"},
    "multi-head": {"kv_heads": 6},
    "multi-query": {"kv_heads": 1},
    "learned": {"positions": "learned"},
    "untied": {"tied": False},
    "biases": {"biases": True},
    "all at once": {"positions": "learned", "tied": False, "biases": True, "kv_heads": 2},
}
TOKENS = [3, 0, 6, 6, 1, 5]


def model_of(of: DecoderConfig) -> DecoderModel:
    return DecoderModel.build(of, parameters(of))


def cached(model: DecoderModel, lanes: list[list[int]], prompt: int) -> tuple[Array, DecoderCache]:
    cache = DecoderCache(model, len(lanes), 12)
    logits = [prefill(model, cache, np.array(lanes)[:, :prompt])]
    logits += [decode(model, cache, np.array(lanes)[:, t]) for t in range(prompt, len(lanes[0]))]
    return np.concatenate(logits, axis=1), cache


@pytest.mark.parametrize("option", OPTIONS)
def test_logits_keys_and_values_equal_the_exact_ones(option: str) -> None:
    of = config(**OPTIONS[option])
    logits, cache = cached(model_of(of), [TOKENS], 3)
    exact = exact_pass(of, parameters(of), TOKENS)
    assert np.abs(logits[0] - np.array(exact.logits, dtype=np.float64)).max() < 1e-13
    for layer, keys, values in zip(cache.layers, exact.keys, exact.values, strict=True):
        held = layer.snapshot()
        assert np.abs(held[0][0] - np.array(keys, dtype=np.float64)).max() < 1e-13
        assert np.abs(held[1][0] - np.array(values, dtype=np.float64)).max() < 1e-13
    assert np.abs(full_prefix(model_of(of), [TOKENS])[0] - logits[0]).max() < 1e-13


def test_each_option_is_another_decoder() -> None:
    last = [full_prefix(model_of(config(**option)), [TOKENS])[0, -1] for option in OPTIONS.values()]
    for i, left in enumerate(last):
        assert all(np.abs(left - right).max() > 1e-3 for right in last[i + 1 :])


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("prompt", [1, 2, 5, 6])
def test_any_prompt_length_gives_the_same_logits(option: str, prompt: int) -> None:
    model = model_of(config(**OPTIONS[option]))
    logits, cache = cached(model, [TOKENS], prompt)
    assert logits.shape == (1, 6, 7)
    assert cache.length == 6
    assert np.abs(logits - full_prefix(model, [TOKENS])).max() < 1e-13


@pytest.mark.parametrize("option", OPTIONS)
def test_each_lane_equals_a_lone_session(option: str) -> None:
    model = model_of(config(**OPTIONS[option]))
    lanes = [TOKENS, TOKENS[::-1], [2, 2, 2, 4, 4, 4]]
    together, cache = cached(model, lanes, 4)
    for b, lane in enumerate(lanes):
        alone, own = cached(model, [lane], 4)
        assert np.abs(together[b] - alone[0]).max() < 1e-13
        for ours, its in zip(cache.layers, own.layers, strict=True):
            assert np.abs(ours.snapshot()[0][b] - its.snapshot()[0][0]).max() < 1e-13
            assert np.abs(ours.snapshot()[1][b] - its.snapshot()[1][0]).max() < 1e-13


def test_a_later_token_of_a_prompt_moves_no_earlier_logit_by_a_bit() -> None:
    model = model_of(config())
    first = prefill(model, DecoderCache(model, 1, 12), [TOKENS])
    for t in range(1, 6):
        changed = TOKENS[:t] + [(token + 1) % 7 for token in TOKENS[t:]]
        other = prefill(model, DecoderCache(model, 1, 12), [changed])
        assert other[:, :t].tobytes() == first[:, :t].tobytes()
        assert (other[:, t:] != first[:, t:]).any()


def test_the_first_block_keeps_what_a_layer_of_system_1_keeps() -> None:
    of = config()
    model = model_of(of)
    _, cache = cached(model, [TOKENS], 6)
    rows = model.value("token_embedding.weight")[TOKENS]
    normed = rows / np.sqrt(np.mean(rows * rows, axis=1, keepdims=True) + of.norm_epsilon)
    normed = normed * model.value("blocks.0.attention_norm.gain")
    names = ("query", "key", "value", "output")
    layer = Layer.build(of.layer, **{n: model.value(f"blocks.0.attention.{n}.weight") for n in names})
    lone = LayerCache(layer, 1, 12)
    append(layer, lone, normed[None], rows_per_append="any")
    for ours, its in zip(cache.layers[0].snapshot(), lone.snapshot(), strict=True):
        assert np.abs(ours - its).max() < 1e-15


def test_head_order_and_weight_layout_show() -> None:
    of = config()
    weights = parameters(of)
    right = cached(DecoderModel.build(of, weights), [TOKENS], 3)[0]
    name = "blocks.0.attention.key.weight"
    tiled = weights[name].reshape(10, 3, 4)[:, [1, 0, 2]].reshape(10, 12)
    wrong = cached(DecoderModel.build(of, weights | {name: tiled}), [TOKENS], 3)[0]
    assert np.abs(right - wrong).max() > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary": 0}, "vocabulary is 0"),
        ({"layers": 0}, "layers is 0"),
        ({"norm_epsilon": -1.0}, "norm_epsilon"),
        ({"norm_epsilon": np.inf}, "norm_epsilon"),
        ({"positions": "rotary"}, "positions is 'rotary'"),
        ({"feed_forward_width": 0}, "feed_forward_width is 0"),
    ],
)
def test_a_configuration_that_makes_no_decoder_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PUBLISHED_CONFIG, **change)


def test_parameters_are_ordered_as_published_with_options_in_their_place() -> None:
    names = list(config(positions="learned", tied=False, biases=True, kv_heads=2).parameter_shapes())
    assert names[:5] == [
        "token_embedding.weight",
        "position_embedding.weight",
        "blocks.0.attention_norm.gain",
        "blocks.0.attention.query.weight",
        "blocks.0.attention.query.bias",
    ]
    assert names[-2:] == ["final_norm.gain", "head.weight"]
    assert config(biases=True, kv_heads=2).parameter_shapes()["blocks.2.attention.key.bias"] == (8,)


def test_missing_unknown_and_misshapen_parameters_are_refused() -> None:
    of = config()
    weights = parameters(of)
    with pytest.raises(ValueError, match=r"final_norm\.gain missing"):
        DecoderModel.build(of, {name: w for name, w in weights.items() if name != "final_norm.gain"})
    with pytest.raises(ValueError, match=r"head\.weight missing or unknown"):
        DecoderModel.build(of, weights | {"head.weight": np.zeros((10, 7))})
    with pytest.raises(ValueError, match=r"blocks.0.ffn.up.weight is \[9, 10\]"):
        DecoderModel.build(of, weights | {"blocks.0.ffn.up.weight": np.zeros((9, 10))})


def test_an_update_is_all_or_nothing() -> None:
    of = config()
    model = model_of(of)
    gain = np.full(10, 2.0)
    for bad in ({"head.weight": gain}, {"blocks.1.ffn_norm.gain": np.zeros(9)}):
        with pytest.raises(ValueError, match="DecoderModel"):
            model.update({"final_norm.gain": gain} | bad)
        assert model.nodes["final_norm.gain"].revision == 0
    model.update({"final_norm.gain": gain})
    assert model.nodes["final_norm.gain"].revision == 1
    assert model.value("final_norm.gain").tolist() == gain.tolist()


def test_a_rewired_model_shares_every_node_but_the_fresh_ones() -> None:
    model = model_of(config())
    fresh = ["blocks.0.ffn.gate.weight"]
    other = model.rewired(fresh=fresh)
    assert [name for name in model.nodes if model.nodes[name] is not other.nodes[name]] == fresh
    assert full_prefix(other, [TOKENS]).tobytes() == full_prefix(model, [TOKENS]).tobytes()
    with pytest.raises(ValueError, match="nowhere"):
        model.rewired(fresh=["nowhere"])
