"""No legitimate variant exceeds the bound, whatever its order, softmax, scaling, rotation and precision."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.budget import (
    attention_bound,
    attention_pass,
    layer_bound,
    layer_pass,
    layer_tolerance,
)
from conformance.values import AttentionConfig
from tests.budget_fixtures import DESIGNED
from tests.budget_variants import (
    CONTENT,
    ORDERS,
    PROFILES,
    ROTATIONS,
    SCALINGS,
    SOFTMAXES,
    WIDE,
    Variant,
    attend,
    may_overflow,
    random_case,
    random_variant,
    run,
    truth,
    worst_share,
)

pytestmark = pytest.mark.skipif(
    np.finfo(WIDE).nmant < 63, reason="the truth needs an extended long double, which this machine lacks"
)


def finite(found: dict[str, Any]) -> bool:
    return all(bool(np.isfinite(array).all()) for array in found.values())


def shares(seed: int, profile: str) -> dict[str, float]:
    """One random case and four variants of it: the largest share of the bound, by field."""
    r = np.random.default_rng(seed)
    fixture, position = random_case(r, profile)
    true = truth(fixture, position)
    worst: dict[str, float] = defaultdict(float)
    variants = [random_variant(r, profile) for _ in range(4)]
    bound = layer_bound(
        *fixture, variants[0].precision, first_position=position, eager=variants[0].eager
    )
    for how in variants:
        found = run(fixture, how, position)
        if finite(found) or not may_overflow(how, profile):
            for field, share in worst_share(found, true, bound).items():
                worst[field] = max(worst[field], share)
    return worst


@pytest.mark.parametrize("profile", PROFILES)
def test_no_variant_exceeds_the_bound_in_a_seeded_sweep(profile: str) -> None:
    worst: dict[str, float] = defaultdict(float)
    for seed in range(60):
        for field, share in shares(seed, profile).items():
            worst[field] = max(worst[field], share)
    assert max(worst.values()) <= 1.0, dict(worst)
    assert worst["output"] > 0.01, "the sweep is too tame to show anything"


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), profile=st.sampled_from(sorted(PROFILES)))
def test_no_variant_exceeds_the_bound(seed: int, profile: str) -> None:
    worst = shares(seed, profile)
    assert all(share <= 1.0 for share in worst.values()), dict(worst)


@pytest.mark.parametrize("name", DESIGNED)
@pytest.mark.parametrize("arithmetic", [np.float64, np.float32])
def test_every_form_stays_within_the_bound_on_the_designed_fixtures(name: str, arithmetic: Any) -> None:
    config, parameters, rows = DESIGNED[name]()
    fixture = type(DESIGNED[name]())(config, parameters, rows.astype(arithmetic).astype(np.float64))
    true = truth(fixture)
    forms = [
        *(Variant(order=order, arithmetic=arithmetic) for order in ORDERS),
        *(Variant(softmax=softmax, arithmetic=arithmetic) for softmax in SOFTMAXES),
        *(Variant(scaling=scaling, arithmetic=arithmetic) for scaling in SCALINGS),
        *(Variant(rotation=rotation, arithmetic=arithmetic) for rotation in ROTATIONS),
    ]
    bound = layer_bound(*fixture, forms[0].precision)
    for how in forms:
        worst = worst_share(run(fixture, how), true, bound)
        assert max(worst.values()) <= 1.0, (how, worst)


@pytest.mark.parametrize("seed", range(30))
def test_a_variant_stays_within_the_tolerance_of_the_computed_pass(seed: int) -> None:
    r = np.random.default_rng(seed)
    fixture, position = random_case(r, "float64")
    expected = layer_pass(*fixture, first_position=position)
    gate = layer_tolerance(*fixture, Variant().precision, first_position=position)
    for _ in range(4):
        how = random_variant(r, "float64")
        found = run(fixture, how, position)
        if not finite(found) and may_overflow(how, "float64"):
            continue
        for field, array in found.items():
            difference = np.abs(array - getattr(expected, field))
            assert (difference <= getattr(gate, field)).all(), field


def test_a_winner_may_lose_to_its_rival_where_scores_are_too_coarse() -> None:
    # in bfloat16 the scores 4400 and 4434 may round to one number, and the winner's weight fall to a half
    config = AttentionConfig(1, 1, 2, 1)
    query = np.array([[[[0.0, 0.0], [4400 * np.sqrt(2), 0.0]]]])
    key = np.array([[[[1.0, 0.0], [1 + 2.0**-7, 0.0]]]])
    value = np.zeros((1, 1, 2, 1))
    expected = attention_pass(config, query, key, value)
    assert expected.weights is not None
    assert expected.weights[0, 0, 1, 1] > 1 - 1e-14
    precision = Variant(**PROFILES["bfloat16, eager"]).precision
    bound = attention_bound(config, query, key, value, precision, eager=True)
    assert bound.weights is not None
    assert bound.weights[0, 0, 1].min() > 0.5


def test_a_logarithm_of_huge_scores_is_off_by_a_power_and_not_by_a_share() -> None:
    # scores of some 1e9 in float32 are off by tens, and weights by e to the power of tens
    r = np.random.default_rng(2)
    query, key = (r.uniform(2e4, 6e4, (500, 1, 3, 2)).astype(np.float32) for _ in range(2))
    key[:, :, 1:] = key[:, :, :1]
    value = np.ones((500, 1, 3, 1), np.float32)
    how = Variant(softmax="log-sum-exp", arithmetic=np.float32)
    bound = attention_bound(AttentionConfig(1, 1, 2, 1), query, key, value, how.precision)
    output, weights = attend(query, key, value, how)
    assert np.abs(output - 1).max() > 0.1
    assert (np.abs(output - 1) <= bound.output).all()
    true = np.tril(np.ones((3, 3))) / np.arange(1, 4)[:, None]
    assert (np.abs(weights - true) <= bound.weights).all()
    assert not bound.applicable


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_scale_split_between_query_and_key_stays_within_the_bound_where_roundings_line_up(
    dtype: Any,
) -> None:
    # numbers just above a power of two after scaling, whose products cancel: every rounding counts in full
    r = np.random.default_rng(1)
    query, key = (256 * r.uniform(1.19, 1.3, (20_000, 1, 2, 2)) for _ in range(2))
    query[..., 1] = -query[..., 0] * key[..., 1:, 0] / key[..., 1:, 1]
    key[:, :, 0] = 0
    value = np.tile([[[0.0], [1.0]]], (20_000, 1, 1, 1))
    query, key, value = (array.astype(dtype) for array in (query, key, value))
    how = Variant(scaling="split", arithmetic=dtype)
    bound = attention_bound(AttentionConfig(1, 1, 2, 1), query, key, value, how.precision)
    output, _ = attend(query, key, value, how)
    true, _ = attend(*(array.astype(WIDE) for array in (query, key, value)), Variant(arithmetic=WIDE))
    worst = (np.abs(output - true) / bound.output).max()
    assert 0.5 < worst <= 1.0


def attention_operands(r: np.random.Generator, dtype: Any) -> tuple[Any, Any, Any]:
    """Query of four heads, key and value of two, with different widths, in awkward content."""
    batch, count = 2, int(r.integers(1, 10))
    kinds = list(CONTENT)
    arrays = []
    for heads, width in ((4, 6), (2, 6), (2, 3)):
        rows = CONTENT[kinds[r.integers(len(kinds))]](r, batch * heads * count, width)
        arrays.append(rows.reshape(batch, heads, count, width).astype(dtype))
    return arrays[0], arrays[1], arrays[2]


@pytest.mark.parametrize("profile", ["float64", "float32", "float64, softmax in float32"])
def test_no_variant_of_attention_alone_exceeds_its_bound(profile: str) -> None:
    for seed in range(60):
        r = np.random.default_rng(seed)
        how = random_variant(r, profile)
        query, key, value = attention_operands(r, how.arithmetic)
        bound = attention_bound(AttentionConfig(4, 2, 6, 3), query, key, value, how.precision)
        keys, values = np.repeat(key, 2, axis=1), np.repeat(value, 2, axis=1)
        with np.errstate(all="ignore"):
            output, weights = attend(query, keys, values, how)
            true_output, true_weights = attend(
                *(array.astype(WIDE) for array in (query, keys, values)), Variant(arithmetic=WIDE)
            )
        if not np.isfinite(output).all() and may_overflow(how, profile):
            continue
        assert (np.abs(output - true_output) <= bound.output).all(), how
        if weights is not None:
            assert (np.abs(weights - true_weights) <= bound.weights).all(), how
