"""The full-prefix pass: expected values that owe nothing to the implementations under `reference_impl`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from conformance.adapter import Precision
from conformance.budget import attention_pass, attention_tolerance, layer_pass, layer_tolerance
from conformance.errors import TraceError
from conformance.values import AttentionConfig
from tests.budget_fixtures import DESIGNED, extreme, mean, mod, seed, weights

SEED_OUTPUT = (
    ("1", "0", "1", "0"),
    (
        "0.2138090086764157058004094902162763157605",
        "0.7861909913235842941995905097837236842395",
        "0.7701511529340698805363498681960615370705",
        "-0.4207354924039482560418603278226365695648",
    ),
    (
        "0.6290440778027005590169942281047565294178",
        "0.9453039575433642520478680287178898612471",
        "0.3747184897736657830605160929330181250798",
        "-0.5835894705445260745182451497296537575656",
    ),
)
"""The outputs of the published example to 40 digits."""


def test_the_published_example_comes_out() -> None:
    exact = np.array([[float(digits) for digits in row] for row in SEED_OUTPUT])
    assert np.abs(layer_pass(*seed()).output[0] - exact).max() < 1e-15


def test_running_means_come_out_in_closed_form() -> None:
    config, parameters, rows = mean()
    b, t, i = np.indices(rows.shape)
    means = (1 + i + 8 * b) * (1 + 2.0**-30) + (-1.0) ** i * (1 + b) / 4 * t
    batch, count, _ = rows.shape
    heads = np.repeat(means.reshape(batch, count, 2, 2), 2, axis=2).reshape(batch, count, 8)
    gate = layer_tolerance(config, parameters, rows, Precision()).output
    assert (np.abs(layer_pass(config, parameters, rows).output - heads @ parameters.output) <= gate).all()


def test_weights_come_out_in_closed_form() -> None:
    fixture = weights()
    found = layer_pass(*fixture)
    amplitudes = np.array([1.0, 4.0, 3.0, 8.0])
    gap = np.arange(8)[:, None] - np.arange(8)
    angles = gap[..., None] * 16.0 ** -np.arange(4)
    for head, wave in enumerate((np.cos, np.sin)):
        scores = np.where(gap >= 0, (amplitudes * wave(angles)).sum(axis=-1) / np.sqrt(8), -np.inf)
        raw = np.exp(scores)
        closed = raw / raw.sum(axis=-1, keepdims=True)
        assert np.abs(found.output[0, :, 8 * head : 8 * head + 8] - closed).max() < 1e-15
        assert found.weights is not None
        assert np.abs(found.weights[0, head] - closed).max() < 1e-15


def test_the_winner_takes_all_where_scores_are_extreme() -> None:
    found = layer_pass(*extreme())
    for head, winners in enumerate(((0, 0, 2, 2, 4, 4), (0, 1, 1, 3, 3, 5))):
        assert (found.heads[0, head] == found.value[0, head][list(winners)]).all()


def test_scores_and_weights_are_zero_above_the_diagonal_and_weights_sum_to_one() -> None:
    found = layer_pass(*mod())
    assert found.scores is not None
    assert found.weights is not None
    above = np.triu(np.ones((7, 7), dtype=bool), 1)
    assert not found.scores[..., above].any()
    assert not found.weights[..., above].any()
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1.0, rtol=1e-15)
    scores = np.einsum("bgrtd,bgjd->bgrtj", found.rotated_query.reshape(2, 2, 2, 7, 6), found.rotated_key)
    below = ~above
    seen = found.scores.reshape(2, 2, 2, 7, 7)[..., below]
    np.testing.assert_allclose(seen, scores[..., below] / np.sqrt(6), rtol=1e-12, atol=1e-15)


def test_no_row_depends_on_a_later_one_or_on_another_lane() -> None:
    config, parameters, rows = mod()
    gate = layer_tolerance(config, parameters, rows, Precision())
    whole = layer_pass(config, parameters, rows).output
    for count in range(1, 8):
        part = layer_pass(config, parameters, rows[:1, :count]).output
        assert (np.abs(part[0] - whole[0, :count]) <= gate.output[0, :count]).all()


def test_each_key_value_head_serves_the_query_heads_beside_each_other() -> None:
    config, parameters, rows = mod(heads=6, kv_heads=3, head=4)
    shared = layer_pass(config, parameters, rows)

    def spread(weight: np.ndarray) -> np.ndarray:
        return np.repeat(weight.reshape(24, 3, 1, 4), 2, axis=2).reshape(24, 24)

    own = replace(parameters, key=spread(parameters.key), value=spread(parameters.value))
    full = layer_pass(replace(config, kv_heads=6), own, rows)
    np.testing.assert_allclose(shared.output, full.output, rtol=1e-12)


@pytest.mark.parametrize("pairing", ["adjacent", "half"])
def test_keys_turn_by_position_times_frequency(pairing: str) -> None:
    fixture = mod(pairing=pairing)  # type: ignore[arg-type]
    found = layer_pass(*fixture, first_position=11)
    for i in range(3):
        first, second = (2 * i, 2 * i + 1) if pairing == "adjacent" else (i, i + 3)
        plain = found.key[..., first] + 1j * found.key[..., second]
        angle = (11 + np.arange(7)) * 100.0 ** (-2 * i / 6)
        turned = plain * np.exp(1j * angle)
        np.testing.assert_allclose(found.rotated_key[..., first], turned.real, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(found.rotated_key[..., second], turned.imag, rtol=1e-13, atol=1e-14)


def test_a_common_shift_of_positions_moves_keys_and_not_outputs() -> None:
    fixture = mod()
    near, far = layer_pass(*fixture), layer_pass(*fixture, first_position=37)
    assert np.abs(near.output - far.output).max() < 1e-12
    assert np.abs(near.rotated_key - far.rotated_key).max() > 0.1


def test_attention_alone_is_what_the_layer_computes_inside() -> None:
    fixture = mod()
    layer = layer_pass(*fixture)
    config = AttentionConfig(4, 2, 6, 6)
    found = attention_pass(config, layer.rotated_query, layer.rotated_key, layer.value)
    assert (found.output == layer.heads).all()
    assert layer.weights is not None
    assert (found.weights == layer.weights).all()
    gate = attention_tolerance(config, layer.rotated_query, layer.rotated_key, layer.value, Precision())
    assert gate.output.shape == found.output.shape


def test_keys_and_values_may_have_different_widths() -> None:
    r = np.random.default_rng(0)
    query, key, value = (r.standard_normal(shape) for shape in ((2, 6, 4, 5), (2, 3, 4, 5), (2, 3, 4, 2)))
    found = attention_pass(AttentionConfig(6, 3, 5, 2), query, key, value)
    scores = key[1, 2] @ query[1, 5, 3] / np.sqrt(5)
    raw = np.exp(scores)
    np.testing.assert_allclose(found.output[1, 5, 3], raw @ value[1, 2] / raw.sum(), rtol=1e-14)
    with pytest.raises(TraceError, match="value has shape"):
        attention_pass(AttentionConfig(6, 3, 5, 2), query, key, key)


def test_inputs_are_left_alone_and_results_are_not_views_of_them() -> None:
    for name, make in DESIGNED.items():
        config, parameters, rows = make()
        before = rows.copy()
        found = layer_pass(config, parameters, rows)
        found.output[:] = found.key[:] = 0
        assert (rows == before).all(), name


def test_overflow_comes_out_as_numbers_that_are_not_finite_without_a_warning() -> None:
    config, parameters, rows = mod()
    found = layer_pass(config, replace(parameters, query=np.full_like(parameters.query, 1e308)), rows * 1e3)
    assert not np.isfinite(found.output).all()


def test_the_pass_needs_neither_the_reference_implementations_nor_mpmath() -> None:
    code = (
        "import sys; from tests.budget_fixtures import mod; from conformance.adapter import Precision; "
        "from conformance import budget; fixture = mod(); budget.layer_pass(*fixture); "
        "budget.layer_tolerance(*fixture, Precision()); "
        "print([name for name in sys.modules if name.split('.')[0] in ('reference_impl', 'mpmath')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
