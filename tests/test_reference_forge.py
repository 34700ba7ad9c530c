"""forge's decoder: its cache, its counter, its six-token check, and the mistakes that the check must see."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from reference_impl.decoder import DecoderConfig
from reference_impl.exact_decoder import exact_pass
from reference_impl.forge import ForgeDecoder, causal_mask, stepwise_gap
from reference_impl.layer import LayerConfig, RopeConfig
from reference_impl.store import Pair, SlotCache
from tests.decoder_models import config, parameters

Array = np.ndarray[Any, Any]
GATE = 1e-5
TOKENS = np.array([[3, 0, 6, 6, 1, 5]])
OPTIONS: dict[str, dict[str, Any]] = {
    "rope": {},
    "learned": {"positions": "learned"},
    "all options": {"positions": "learned", "tied": False, "biases": True, "kv_heads": 2},
}


def model_of(option: str = "rope") -> ForgeDecoder:
    of = config(**OPTIONS[option])
    return ForgeDecoder(of, parameters(of), dtype=np.float64)


def float32_model(
    seed: int = 0, *, kind: type[ForgeDecoder] = ForgeDecoder, positions: Any = "rope"
) -> ForgeDecoder:
    """A small decoder with weights as a trained one starts with: 4 blocks, 8 query and 4 key/value heads."""
    of = DecoderConfig(64, 4, LayerConfig(64, 8, 4, 8, RopeConfig(10000.0, "half", 64)), 128, 1e-5, positions)
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in of.parameter_shapes().items():
        scale = 1 / np.sqrt(64 if "embedding" in name else shape[0])
        weights[name] = np.ones(shape) if name.endswith("gain") else scale * rng.normal(size=shape)
    return kind(of, weights, dtype=np.float32)


def partitions(count: int) -> list[list[int]]:
    found = []
    for cuts in product((False, True), repeat=count - 1):
        edges = [0, *(i for i, cut in enumerate(cuts, start=1) if cut), count]
        found.append([b - a for a, b in pairwise(edges)])
    return found


def in_parts(model: ForgeDecoder, tokens: Array, parts: list[int]) -> tuple[Array, SlotCache]:
    model.reset_position()
    cache, start, logits = model.new_cache(), 0, []
    for count in parts:
        logits.append(model(tokens[:, start : start + count], cache))
        start += count
    return np.concatenate(logits, axis=1), cache


def lengths(cache: SlotCache) -> list[int]:
    return [pair[0].shape[2] if (pair := cache.get(layer)) else 0 for layer in range(len(cache))]


@pytest.mark.parametrize("option", OPTIONS)
def test_logits_and_slots_are_those_of_the_exact_decoder(option: str) -> None:
    of = config(**OPTIONS[option])
    exact = exact_pass(of, parameters(of), TOKENS[0].tolist())
    model = model_of(option)
    logits, cache = in_parts(model, TOKENS, [3, 1, 2])
    assert np.abs(logits[0] - np.array(exact.logits, dtype=np.float64)).max() < 1e-13
    for layer in range(of.layers):
        keys, values = cache.get(layer)  # type: ignore[misc]
        assert np.abs(keys[0] - np.array(exact.keys[layer], dtype=np.float64)).max() < 1e-13
        assert np.abs(values[0] - np.array(exact.values[layer], dtype=np.float64)).max() < 1e-13


@pytest.mark.parametrize("option", OPTIONS)
def test_all_partitions_of_six_tokens_agree(option: str) -> None:
    model = model_of(option)
    lanes = np.array([TOKENS[0], TOKENS[0, ::-1]])
    complete = model(lanes)
    assert len(partitions(6)) == 32
    for parts in partitions(6):
        logits, cache = in_parts(model, lanes, parts)
        assert np.abs(logits - complete).max() < 1e-13, parts
        assert (lengths(cache), model.position) == ([6] * 3, 6)


@pytest.mark.parametrize("seed", range(3))
def test_the_six_token_gap_in_float32_is_within_the_gate(seed: int) -> None:
    tokens = np.random.default_rng(seed).integers(0, 64, (1, 6))
    model = float32_model(seed)
    gap = stepwise_gap(model, tokens)
    assert 0 < gap < GATE
    for parts in ([6], [2, 4], [3, 1, 2]):
        logits, _ = in_parts(model, tokens, parts)
        assert logits.dtype == np.float32
        assert np.abs(logits - model(tokens)).max() < GATE


def test_every_slot_grows_by_the_tokens_of_the_call_and_the_counter_with_it() -> None:
    model = model_of()
    cache = model.new_cache()
    assert lengths(cache) == [0] * 3
    model(TOKENS[:, :4], cache)
    assert (lengths(cache), model.position) == ([4] * 3, 4)
    first = [cache.get(layer) for layer in range(3)]
    model(TOKENS[:, 4:5], cache)
    assert (lengths(cache), model.position) == ([5] * 3, 5)
    for layer, old in enumerate(first):
        for before, after in zip(old, cache.get(layer), strict=True):  # type: ignore[arg-type]
            assert after[:, :, :4].tobytes() == before.tobytes()


def test_an_uncached_pass_neither_reads_nor_moves_the_counter_nor_touches_a_slot() -> None:
    model = model_of("learned")
    first = model(TOKENS)
    assert model.position == 0
    cache = model.new_cache()
    model(TOKENS[:, :4], cache)
    slots = [cache.get(layer) for layer in range(3)]
    assert model(TOKENS).tobytes() == first.tobytes()
    assert model.position == 4
    assert all(cache.get(layer) is slots[layer] for layer in range(3))


def test_resetting_both_gives_the_same_bits_again() -> None:
    model = model_of("learned")
    cache = model.new_cache()
    first = model(TOKENS, cache)
    cache.reset()
    model.reset_position()
    assert lengths(cache) == [0] * 3
    assert model(TOKENS, cache).tobytes() == first.tobytes()


def test_the_mask_is_nothing_for_one_token_and_bottom_right_for_several() -> None:
    assert causal_mask(1, 0) is causal_mask(1, 5) is None
    assert causal_mask(3, 0).tolist() == np.tri(3, dtype=bool).tolist()  # type: ignore[union-attr]
    assert causal_mask(2, 2).tolist() == [[True, True, True, False], [True] * 4]  # type: ignore[union-attr]


def test_a_failure_midway_leaves_the_counter_ahead_and_the_layers_unequal() -> None:
    model = model_of()
    cache = model.new_cache()
    model(TOKENS[:, :2], cache)
    del model.parameters["blocks.1.ffn.up.weight"]
    with pytest.raises(KeyError):
        model(TOKENS[:, 2:3], cache)
    assert (lengths(cache), model.position) == ([3, 2, 2], 3)


class MisplacedKey(SlotCache):
    """The newest key lands one slot too early, before its elder; its value lands right."""

    def update(self, layer: int, pair: Pair) -> None:
        keys = pair[0].copy()
        if keys.shape[2] > 1:
            keys[:, :, [-2, -1]] = keys[:, :, [-1, -2]]
        super().update(layer, (keys, pair[1]))


class Overwriting(SlotCache):
    """From the third row on, the newest row lands on its elder instead of behind it."""

    def update(self, layer: int, pair: Pair) -> None:
        keep = [*range(pair[0].shape[2] - 2), -1] if pair[0].shape[2] > 2 else slice(None)
        super().update(layer, (pair[0][:, :, keep], pair[1][:, :, keep]))


class ForgottenWrite(SlotCache):
    """One write of one layer never happens."""

    def update(self, layer: int, pair: Pair) -> None:
        if (layer, pair[0].shape[2]) != (1, 3):
            super().update(layer, pair)


class Miscounting(ForgeDecoder):
    """The counter is one too high from the fourth token on."""

    def __call__(self, tokens: Any, cache: SlotCache | None = None) -> Array:
        if cache is not None and self.position == 3:
            self.position += 1
        return super().__call__(tokens, cache)


class OneTooFar(ForgeDecoder):
    """The counter begins at 1."""

    def __call__(self, tokens: Any, cache: SlotCache | None = None) -> Array:
        if cache is not None and self.position == 0:
            self.position += 1
        return super().__call__(tokens, cache)


@pytest.mark.parametrize("positions", ["rope", "learned"])
@pytest.mark.parametrize("mistake", [MisplacedKey, Overwriting, ForgottenWrite, Miscounting])
def test_the_named_mistakes_land_far_outside_the_gate(mistake: type[Any], positions: str) -> None:
    tokens = np.random.default_rng(0).integers(0, 64, (1, 6))
    is_model = issubclass(mistake, ForgeDecoder)
    model = float32_model(kind=mistake if is_model else ForgeDecoder, positions=positions)
    cache = model.new_cache() if is_model else mistake(4)
    assert stepwise_gap(model, tokens, cache) > 100 * GATE


def test_a_constant_offset_shows_only_with_a_learned_table() -> None:
    tokens = np.random.default_rng(0).integers(0, 64, (1, 6))
    assert stepwise_gap(float32_model(kind=OneTooFar, positions="learned"), tokens) > 100 * GATE
    assert stepwise_gap(float32_model(kind=OneTooFar), tokens) < GATE


@pytest.mark.parametrize("positions", ["rope", "learned"])
def test_the_trap_of_a_counter_reset_without_the_cache(positions: str) -> None:
    tokens = np.random.default_rng(0).integers(0, 64, (1, 6))
    model = float32_model(positions=positions)
    cache = model.new_cache()
    assert stepwise_gap(model, tokens, cache) < GATE
    model.reset_position()
    assert stepwise_gap(model, tokens, cache) > 100 * GATE


def test_the_trap_of_a_cache_reset_without_the_counter() -> None:
    tokens = np.random.default_rng(0).integers(0, 64, (1, 6))
    for positions, is_seen in (("learned", True), ("rope", False)):
        model = float32_model(positions=positions)
        cache = model.new_cache()
        model(tokens, cache)
        cache.reset()
        # Rotation sees only differences of positions, so single steps hide this trap from it.
        assert (stepwise_gap(model, tokens, cache) > 100 * GATE) is is_seen
        cache.reset()
        with pytest.raises(ValueError, match="broadcast"):
            model(tokens, cache)


def test_the_callers_weights_are_copied() -> None:
    of = config()
    weights = parameters(of)
    model = ForgeDecoder(of, weights, dtype=np.float64)
    before = model(TOKENS)
    for array in weights.values():
        array[...] = 9.0
    assert model(TOKENS).tobytes() == before.tobytes()
