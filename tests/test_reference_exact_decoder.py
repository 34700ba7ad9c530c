"""The exact decoder: published digits of chapter 38, and the options that it lacks."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from reference_impl.exact import IntervalArithmetic, MpmathArithmetic, as_fraction, fixed_point
from reference_impl.exact_decoder import exact_pass
from reference_impl.layer import LayerConfig, RopeConfig
from tests.decoder_models import FIGURES, PUBLISHED_CONFIG, parameters, published_parameters

PARAMETERS = published_parameters()


def rounded(row: Any, places: int = 9) -> list[str]:
    return [fixed_point(x, places) for x in row]


def worst(left: Any, right: Any) -> float:
    pairs = zip(*(np.array(numbers, dtype=object).ravel() for numbers in (left, right)), strict=True)
    return max(float(abs(a - b)) for a, b in pairs)


def test_logits_round_to_every_published_digit() -> None:
    run = exact_pass(PUBLISHED_CONFIG, PARAMETERS, [0, 1, 2])
    assert rounded(run.logits[1]) == FIGURES["logits"]["after_prefill_of_0_1"]
    assert rounded(run.logits[2]) == FIGURES["logits"]["after_decode_of_2"]
    assert np.array(run.keys, dtype=object).shape == np.array(run.values, dtype=object).shape == (2, 2, 3, 2)


def test_one_pass_holds_the_pass_of_every_prefix() -> None:
    halves = replace(PUBLISHED_CONFIG.layer, rope=RopeConfig(10000.0, "half", 4))
    config = replace(PUBLISHED_CONFIG, layer=halves)
    weights = parameters(config)
    whole = exact_pass(config, weights, [3, 0, 4, 1])
    for length in range(1, 5):
        prefix = exact_pass(config, weights, [3, 0, 4, 1][:length])
        assert prefix.logits == whole.logits[:length]
        assert prefix.keys == [[head[:length] for head in layer] for layer in whole.keys]
        assert prefix.values == [[head[:length] for head in layer] for layer in whole.values]


def test_first_keys_are_projected_and_later_keys_are_turned() -> None:
    weights = PARAMETERS
    run = exact_pass(PUBLISHED_CONFIG, weights, [2, 2])
    row = weights["token_embedding.weight"][2]
    normed = row / math.sqrt(np.mean(row * row) + 1e-6)
    key = normed @ weights["blocks.0.attention.key.weight"]
    assert worst(run.keys[0], [[key[:2], _turn(key[:2], 1.0)], [key[2:], _turn(key[2:], 1.0)]]) < 1e-15
    value = normed @ weights["blocks.0.attention.value.weight"]
    assert worst(run.values[0], [[value[:2], value[:2]], [value[2:], value[2:]]]) < 1e-15


def _turn(pair: Any, angle: float) -> list[float]:
    return [pair[0] * math.cos(angle) - pair[1] * math.sin(angle),
            pair[0] * math.sin(angle) + pair[1] * math.cos(angle)]


def test_pairings_agree_after_the_features_of_queries_and_keys_are_reordered() -> None:
    config = replace(PUBLISHED_CONFIG, layer=LayerConfig(6, 2, 1, 6, RopeConfig(100.0, "adjacent", 4)))
    weights = parameters(config)
    to_half = [0, 2, 4, 1, 3, 5]
    moved = dict(weights)
    for block in range(config.layers):
        for name, heads in (("query", 2), ("key", 1)):
            at = f"blocks.{block}.attention.{name}.weight"
            moved[at] = weights[at][:, [6 * h + i for h in range(heads) for i in to_half]]
    half = replace(config, layer=replace(config.layer, rope=RopeConfig(100.0, "half", 4)))
    adjacent = exact_pass(config, weights, [0, 1, 2, 3])
    assert worst(exact_pass(half, moved, [0, 1, 2, 3]).logits, adjacent.logits) < 1e-45
    assert worst(exact_pass(half, weights, [0, 1, 2, 3]).logits, adjacent.logits) > 1e-3


def test_grouped_heads_equal_repeated_heads() -> None:
    grouped = replace(PUBLISHED_CONFIG, layers=1, layer=LayerConfig(6, 6, 3, 2, PUBLISHED_CONFIG.layer.rope))
    weights = parameters(grouped)
    repeated = dict(weights)
    for name in ("key", "value"):
        at = f"blocks.0.attention.{name}.weight"
        repeated[at] = np.repeat(weights[at].reshape(6, 3, 2), 2, axis=1).reshape(6, 12)
    full = replace(grouped, layer=replace(grouped.layer, kv_heads=6))
    ours = exact_pass(grouped, weights, [4, 2, 0, 1]).logits
    assert ours == exact_pass(full, repeated, [4, 2, 0, 1]).logits
    for name in ("key", "value"):
        at = f"blocks.0.attention.{name}.weight"
        repeated[at] = np.tile(weights[at].reshape(6, 3, 2), (1, 2, 1)).reshape(6, 12)
    assert worst(ours, exact_pass(full, repeated, [4, 2, 0, 1]).logits) > 1e-3


def test_a_tied_head_is_the_transposed_embedding_and_zero_biases_add_nothing() -> None:
    tied = PUBLISHED_CONFIG
    weights = PARAMETERS
    expected = exact_pass(tied, weights, [0, 1, 2]).logits
    untied = replace(tied, tied=False)
    head = {"head.weight": weights["token_embedding.weight"].T}
    assert exact_pass(untied, weights | head, [0, 1, 2]).logits == expected
    biased = replace(tied, biases=True)
    zeros = {n: np.zeros(s) for n, s in biased.parameter_shapes().items() if n.endswith("bias")}
    assert exact_pass(biased, weights | zeros, [0, 1, 2]).logits == expected
    for name, zero in zeros.items():
        moved = exact_pass(biased, weights | zeros | {name: zero + 0.5}, [0, 1, 2])
        # A constant key bias is rotated with its position, so it moves scores too.
        assert worst(moved.logits, expected) > 1e-6, name


def test_a_learned_table_is_added_and_nothing_is_rotated() -> None:
    config = replace(PUBLISHED_CONFIG, positions="learned")
    weights = parameters(config)
    run = exact_pass(config, weights, [1, 1, 3])
    row = weights["token_embedding.weight"][[1, 1, 3]] + weights["position_embedding.weight"][:3]
    normed = row / np.sqrt(np.mean(row * row, axis=1, keepdims=True) + 1e-6)
    normed = normed * weights["blocks.0.attention_norm.gain"]
    keys = (normed @ weights["blocks.0.attention.key.weight"]).reshape(3, 2, 2).transpose(1, 0, 2)
    assert worst(run.keys[0], keys) < 1e-13
    other_base = replace(config, layer=replace(config.layer, rope=RopeConfig(3.0, "adjacent", 4)))
    assert exact_pass(other_base, weights, [1, 1, 3]).logits == run.logits


def test_numbers_are_taken_as_they_stand() -> None:
    tenth = replace(PUBLISHED_CONFIG, norm_epsilon=0.1)
    fraction: Any = replace(PUBLISHED_CONFIG, norm_epsilon=Fraction(1, 10))
    gap = worst(exact_pass(tenth, PARAMETERS, [0]).logits,
                exact_pass(fraction, PARAMETERS, [0]).logits)
    assert 1e-20 < gap < 1e-16


def test_interval_arithmetic_encloses_what_mpmath_computes() -> None:
    interval = IntervalArithmetic()
    enclosed = exact_pass(PUBLISHED_CONFIG, PARAMETERS, [0, 1, 2], arithmetic=interval)
    found = exact_pass(PUBLISHED_CONFIG, PARAMETERS, [0, 1, 2])
    for part in ("logits", "keys", "values"):
        sets = np.array(getattr(enclosed, part), dtype=object).ravel()
        points = np.array(getattr(found, part), dtype=object).ravel()
        for ball, x in zip(sets, points, strict=True):
            low, high = interval.ends(ball)
            assert high - low < Fraction(1, 10**70)
            assert low - Fraction(1, 10**47) < as_fraction(x) < high + Fraction(1, 10**47)


def test_precision_is_our_own_and_nobody_elses() -> None:
    with mpmath.workdps(3):
        coarse = exact_pass(PUBLISHED_CONFIG, PARAMETERS, [0, 1, 2]).logits
        assert mpmath.mp.dps == 3
    assert coarse == exact_pass(PUBLISHED_CONFIG, PARAMETERS, [0, 1, 2]).logits
    finer = exact_pass(PUBLISHED_CONFIG, PARAMETERS, [0, 1, 2], arithmetic=MpmathArithmetic(70)).logits
    assert 0 < worst(coarse, finer) < 1e-45


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([], "no token"), ([0, 5], "token 5"), ([-1], "token -1"), ([0] * 5, "4 positions")],
)
def test_unlawful_tokens_are_refused(tokens: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        exact_pass(PUBLISHED_CONFIG, PARAMETERS, tokens)
