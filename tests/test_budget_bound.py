"""What the bound covers and what it does not: faults exceed it, declared precision widens it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.adapter import Precision
from conformance.budget import attention_bound, layer_bound, layer_pass
from conformance.errors import AdapterError, TraceError
from conformance.values import AttentionConfig
from tests.budget_fixtures import DESIGNED, Fixture, mod
from tests.budget_variants import STORES, Variant, run, truth

BFLOAT16 = Precision("bfloat16", "float32", "float32", "float32")


def share(found: Any, expected: Any, limit: Any) -> float:
    return float((np.abs(found - expected) / limit).max())


def attend_with(change: Callable[[Any], Any], fixture: Fixture) -> Any:
    """The output of the layer with its weights `e / sum(e)` computed by `change` from the raw ones."""
    config, parameters, _ = fixture
    expected = layer_pass(*fixture)
    assert expected.scores is not None
    count = expected.scores.shape[-1]
    visible = np.where(np.tril(np.ones((count, count), dtype=bool)), expected.scores, -np.inf)
    raw = np.exp(visible - visible.max(axis=-1, keepdims=True))
    values = np.repeat(expected.value, config.heads // config.kv_heads, axis=1)
    heads = change(raw) @ values
    return heads.swapaxes(1, 2).reshape(expected.merged.shape) @ parameters.output


def plain(raw: Any) -> Any:
    return raw / raw.sum(axis=-1, keepdims=True)


def guarded(raw: Any) -> Any:
    return raw / (raw.sum(axis=-1, keepdims=True) + 1e-9)


def single(raw: Any) -> Any:
    return plain(raw.astype(np.float32)).astype(np.float64)


@pytest.mark.parametrize("name", ["seed", "square", "mod", "weights"])
def test_faults_far_below_a_usual_tolerance_exceed_the_bound(name: str) -> None:
    fixture = DESIGNED[name]()
    expected = layer_pass(*fixture).output
    limit = layer_bound(*fixture, Precision()).output
    assert share(attend_with(plain, fixture), expected, limit) < 1
    assert share(attend_with(guarded, fixture), expected, limit) > 1000
    assert share(attend_with(single, fixture), expected, limit) > 1000


def test_rows_kept_in_single_precision_exceed_the_bound_unless_declared() -> None:
    fixture = mod()
    found = run(fixture, Variant(storage="float32"))
    expected = layer_pass(*fixture)
    for field in ("output", "rotated_key", "heads"):
        strict = getattr(layer_bound(*fixture, Precision()), field)
        declared = getattr(layer_bound(*fixture, Precision(storage="float32")), field)
        assert share(found[field], getattr(expected, field), strict) > 1000
        assert share(found[field], getattr(expected, field), declared) < 1


def test_a_softmax_in_single_precision_is_a_profile_of_its_own() -> None:
    fixture = mod()
    found = run(fixture, Variant(softmax_dtype=np.float32))["output"]
    expected = layer_pass(*fixture).output
    declared = layer_bound(*fixture, Precision(softmax="float32"))
    assert share(found, expected, layer_bound(*fixture, Precision()).output) > 1000
    assert share(found, expected, declared.output) < 1
    assert (declared.keys == layer_bound(*fixture, Precision()).keys).all()


def test_angles_in_single_precision_show_in_the_stored_keys() -> None:
    fixture = mod()
    later = np.s_[:, :, 1:]
    found = run(fixture, Variant(angle_dtype=np.float32))["rotated_key"][later]
    expected = layer_pass(*fixture).rotated_key[later]
    assert share(found, expected, layer_bound(*fixture, Precision()).keys[later]) > 1000
    assert share(found, expected, layer_bound(*fixture, Precision(angles="float32")).keys[later]) < 1


def test_far_positions_widen_rotated_keys_and_leave_unrotated_ones() -> None:
    fixture = mod(base=1e4)
    near = layer_bound(*fixture, Precision())
    far = layer_bound(*fixture, Precision(), first_position=1_000_003)
    assert far.keys.max() > 1000 * near.keys.max()
    assert (far.key == near.key).all()
    assert (far.values == near.values).all()


def test_the_row_at_position_0_is_not_rotated_and_costs_no_rotation() -> None:
    bound = layer_bound(*mod(), Precision())
    np.testing.assert_allclose(bound.rotated_key[:, :, 0], bound.key[:, :, 0], rtol=1e-12)
    assert (bound.rotated_key[:, :, 1] > bound.key[:, :, 1]).any()


def test_wrong_attention_exceeds_even_the_bound_of_half_precision() -> None:
    fixture = mod()
    config, parameters, rows = fixture
    limit = layer_bound(config, parameters, rows, BFLOAT16)
    assert limit.applicable
    shifted = layer_pass(config, parameters, np.roll(rows, 1, axis=1))
    assert share(shifted.output, layer_pass(*fixture).output, limit.output) > 1


def test_a_precision_too_coarse_for_the_scores_is_not_applicable() -> None:
    config, parameters, rows = mod()
    loud = replace(parameters, query=parameters.query * 256)
    coarse = layer_bound(config, loud, rows, BFLOAT16)
    assert not coarse.applicable
    assert coarse.spread > 0.1
    assert layer_bound(config, loud, rows, Precision()).applicable
    assert np.isfinite(coarse.output).all()


def test_however_coarse_the_weights_a_mixture_stays_among_the_values() -> None:
    config, parameters, rows = mod()
    loud = replace(parameters, query=parameters.query * 2.0**12)
    bound = layer_bound(config, loud, rows, BFLOAT16)
    value = layer_pass(config, loud, rows).value
    reach = np.ptp(value, axis=2).max() + np.abs(value).max() * 0.1
    assert bound.spread > 10
    assert bound.heads.max() < reach
    assert bound.weights is not None
    assert bound.weights.max() < 1.1


def test_eager_intermediates_cost_more() -> None:
    fixture = mod()
    flash = layer_bound(*fixture, BFLOAT16)
    eager = layer_bound(*fixture, BFLOAT16, eager=True)
    assert (eager.output >= flash.output).all()
    assert (eager.output[:, 1:] > flash.output[:, 1:]).all()
    same = layer_bound(*fixture, Precision(), eager=True)
    assert (same.output == layer_bound(*fixture, Precision()).output).all()


def test_errors_that_the_rows_carry_are_passed_on() -> None:
    config, parameters, rows = mod()
    r = np.random.default_rng(0)
    errors = np.abs(rows) * 1e-6 + 1e-7
    clean = layer_pass(config, parameters, rows)
    bound = layer_bound(config, parameters, rows, Precision(), row_errors=errors)
    for _ in range(20):
        moved = layer_pass(config, parameters, rows + errors * r.uniform(-1, 1, rows.shape))
        for field in ("value", "rotated_key", "heads", "output"):
            assert share(getattr(moved, field), getattr(clean, field), getattr(bound, field)) <= 1
    corner = layer_pass(config, parameters, rows + errors * np.sign(parameters.value[:, 0]))
    assert np.abs(corner.value - clean.value)[:, 0, :, 0].max() > 0.99 * bound.value[:, 0, :, 0].max()


def test_bounds_have_the_shapes_of_the_pass() -> None:
    fixture = mod(count=3, heads=6, kv_heads=3, head=4, batch=2)
    bound, expected = layer_bound(*fixture, Precision()), layer_pass(*fixture)
    for field in (
        "output", "query", "key", "value", "rotated_query", "rotated_key", "heads", "merged", "weights",
    ):
        assert getattr(bound, field).shape == getattr(expected, field).shape, field
    assert bound.keys is bound.rotated_key
    assert bound.values is bound.value
    assert bound.weights is not None
    assert not bound.weights[..., 0, 1:].any()


def test_a_pass_at_hand_changes_nothing_but_the_time() -> None:
    fixture = mod()
    with_pass = layer_bound(*fixture, Precision(), expected=layer_pass(*fixture))
    assert (with_pass.output == layer_bound(*fixture, Precision()).output).all()


def test_attention_alone_bounds_stored_rows_by_their_storage() -> None:
    r = np.random.default_rng(5)
    query, key, value = (r.standard_normal(shape) for shape in ((1, 4, 5, 6), (1, 2, 5, 6), (1, 2, 5, 3)))
    config = AttentionConfig(4, 2, 6, 3)
    exact = attention_bound(config, query, key, value, Precision())
    assert not exact.keys.any()
    assert not exact.values.any()
    stored = attention_bound(config, query, key, value, Precision(storage="float32"))
    assert share(STORES["float32"](key), key, stored.keys) <= 1
    assert share(STORES["float32"](key), key, stored.keys) > 0.5
    assert (stored.output > exact.output).all()
    assert exact.output.shape == (1, 4, 5, 3)


def test_one_row_of_attention_is_its_value_within_a_few_roundings() -> None:
    config = AttentionConfig(1, 1, 2, 1)
    bound = attention_bound(config, [[[[3.0, 1.0]]]], [[[[1.0, 2.0]]]], [[[[5.0]]]], Precision())
    assert 0 < bound.output.item() < 100 * 2.0**-53


def test_what_does_not_fit_is_named() -> None:
    config, parameters, rows = mod()
    with pytest.raises(TraceError, match=r"rows has shape \[2, 7, 23\]; asked for \['any', 'any', 24\]"):
        layer_bound(config, parameters, rows[..., :-1], Precision())
    with pytest.raises(TraceError, match=r"parameters\.key has shape"):
        layer_bound(config, replace(parameters, key=parameters.query), rows, Precision())
    with pytest.raises(TraceError, match="kv_heads must divide heads"):
        layer_bound(replace(config, kv_heads=3), parameters, rows, Precision())
    with pytest.raises(TraceError, match="even width"):
        layer_bound(replace(config, head_width=5), parameters, rows, Precision())
    with pytest.raises(TraceError, match="at least one row"):
        layer_bound(config, parameters, rows[:, :0], Precision())
    with pytest.raises(AdapterError, match="float8"):
        layer_bound(config, parameters, rows, Precision(storage="float8"))


def test_truth_and_pass_agree_within_half_of_the_bound_on_the_designed_fixtures() -> None:
    for name, make in DESIGNED.items():
        fixture = make()
        bound, expected = layer_bound(*fixture, Precision()), layer_pass(*fixture)
        for field, array in truth(fixture).items():
            error = np.abs(getattr(expected, field) - array)
            assert (error <= 0.5 * getattr(bound, field)).all(), (name, field)
