"""Long prefixes: the form without a square of memory is never below the dense one, and makes one walk."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance.adapter import Precision
from conformance.budget import (
    DENSE_ROWS,
    attend,
    attention_bound,
    attention_expected,
    attention_pass,
    attention_tolerance,
    layer_bound,
    layer_expected,
    layer_pass,
    layer_tolerance,
    long_bound,
)
from conformance.values import AttentionConfig, LayerConfig, LayerParameters, RopeConfig
from tests.budget_fixtures import Fixture, mod
from tests.budget_variants import CONTENT

SINGLE = Precision("float32", "float32", "float32", "float32")
HALF = Precision("bfloat16", "float32", "float32", "float32")


def decode(count: int, *, content: str = "full", seed: int = 0, width: int = 32, batch: int = 1) -> Fixture:
    """Four query heads on two key/value heads, weights of the usual size, `count` rows."""
    r = np.random.default_rng(seed)
    heads, kv_heads, head = 4, 2, width // 4
    shapes = ((width, width), (width, kv_heads * head), (width, kv_heads * head), (width, width))
    parameters = LayerParameters(*(r.standard_normal(shape) / np.sqrt(width) for shape in shapes))
    rows = CONTENT[content](r, batch * count, width).reshape(batch, count, width)
    config = LayerConfig(width, heads, kv_heads, head, RopeConfig(1e4, "half", 2**20))
    return Fixture(config, parameters, rows)


@pytest.mark.parametrize("precision", [Precision(), SINGLE, HALF], ids=["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("content", CONTENT)
@pytest.mark.parametrize("count", [1, 2, 40, 131])
def test_the_long_form_is_never_below_the_dense_one(content: str, count: int, precision: Precision) -> None:
    fixture = decode(count, content=content, batch=2, width=16)
    for position in (0, 70_001):
        dense = layer_bound(*fixture, precision, first_position=position, dense=True)
        blocks = layer_bound(*fixture, precision, first_position=position, dense=False)
        for field in ("heads", "merged", "output", "query", "key", "value", "rotated_query", "rotated_key"):
            assert (getattr(blocks, field) >= getattr(dense, field)).all(), field
        assert blocks.spread >= dense.spread
        assert blocks.weights is None


@pytest.mark.parametrize("seed", range(12))
def test_the_long_form_dominates_on_attention_alone(seed: int) -> None:
    r = np.random.default_rng(seed)
    kinds = list(CONTENT)
    query, key, value = (
        CONTENT[kinds[r.integers(len(kinds))]](r, heads * 90, width).reshape(1, heads, 90, width)
        for heads, width in ((6, 5), (3, 5), (3, 2))
    )
    config = AttentionConfig(6, 3, 5, 2)
    dense = attention_bound(config, query, key, value, Precision(), dense=True)
    blocks = attention_bound(config, query, key, value, Precision(), dense=False)
    assert (blocks.output >= dense.output).all()


def test_the_long_form_is_not_much_larger() -> None:
    fixture = decode(300)
    dense = layer_bound(*fixture, Precision(), dense=True)
    blocks = layer_bound(*fixture, Precision(), dense=False)
    assert (blocks.output / dense.output).max() < 5


def test_identical_rows_need_no_softmax_error_in_either_form() -> None:
    fixture = decode(100, content="identical")
    dense = layer_bound(*fixture, Precision(), dense=True)
    blocks = layer_bound(*fixture, Precision(), dense=False)
    assert (blocks.heads / dense.heads).max() < 1.5


@pytest.mark.parametrize("given", [True, False])
def test_the_long_form_is_the_same_whether_or_not_the_pass_is_at_hand(given: bool) -> None:
    fixture = decode(100)
    expected = layer_pass(*fixture) if given else None
    bound = layer_bound(*fixture, Precision(), expected=expected)
    again = layer_bound(*fixture, Precision())
    np.testing.assert_allclose(bound.output, again.output, rtol=1e-9)


def test_the_long_pass_is_the_dense_pass_within_the_tolerance() -> None:
    fixture = mod(count=150)
    dense, blocks = layer_pass(*fixture, dense=True), layer_pass(*fixture, dense=False)
    gate = layer_tolerance(*fixture, Precision())
    for field in ("heads", "merged", "output"):
        assert (np.abs(getattr(dense, field) - getattr(blocks, field)) <= getattr(gate, field)).all()
    assert (dense.rotated_key == blocks.rotated_key).all()
    assert blocks.scores is None
    assert blocks.weights is None


def test_short_prefixes_keep_their_weights_and_long_ones_do_not() -> None:
    assert layer_pass(*decode(DENSE_ROWS)).weights is not None
    assert layer_pass(*decode(DENSE_ROWS + 1)).weights is None
    rows = np.ones((1, 2, DENSE_ROWS + 1, 2))
    assert attention_pass(AttentionConfig(2, 2, 2, 2), rows, rows, rows).weights is None


def test_4096_rows_are_served_and_right() -> None:
    config, parameters, rows = decode(4096)
    expected = layer_pass(config, parameters, rows)
    bound = layer_bound(config, parameters, rows, Precision(), expected=expected)
    assert bound.applicable
    assert np.isfinite(bound.output).all()
    for row in (0, 1, 63, 64, 1000, 4095):
        for head in range(config.heads):
            keys = expected.rotated_key[0, head // 2, : row + 1]
            scores = keys @ expected.rotated_query[0, head, row] / np.sqrt(config.head_width)
            weights = np.exp(scores - scores.max())
            mixed = weights @ expected.value[0, head // 2, : row + 1] / weights.sum()
            error = np.abs(mixed - expected.heads[0, head, row])
            assert (error <= 2 * bound.heads[0, head, row]).all(), (row, head)


def peak(action: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "action",
    [lambda f: layer_pass(*f), lambda f: layer_bound(*f, Precision())],
    ids=["pass", "bound"],
)
def test_memory_grows_as_the_rows(action: Callable[[Fixture], Any]) -> None:
    fixtures = [decode(count) for count in (1024, 2048)]
    smaller, larger = (peak(lambda f=f: action(f)) for f in fixtures)  # type: ignore[misc]
    assert larger < 2.3 * smaller
    assert larger < 2048 * 2048 * 8 / 2


@pytest.mark.parametrize("precision", [Precision(), SINGLE, HALF], ids=["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("count", [50, 150])
def test_pass_and_tolerance_together_are_those_apart(count: int, precision: Precision) -> None:
    fixture = decode(count, batch=2)
    expected, gate = layer_expected(*fixture, precision)
    alone = layer_pass(*fixture)
    tolerance = layer_tolerance(*fixture, precision)
    for field in ("key", "value", "rotated_query", "rotated_key", "heads", "merged", "output"):
        assert (getattr(expected, field) == getattr(alone, field)).all(), field
        np.testing.assert_allclose(getattr(gate, field), getattr(tolerance, field), rtol=1e-6)
    assert (gate.weights is None) == (count > DENSE_ROWS)


@pytest.mark.parametrize("precision", [Precision(), HALF], ids=["float64", "bfloat16"])
@pytest.mark.parametrize("count", [50, 150])
def test_attention_and_its_tolerance_together_are_those_apart(count: int, precision: Precision) -> None:
    made = layer_pass(*decode(count))
    config = AttentionConfig(4, 2, 8, 8)
    given = (config, made.rotated_query, made.rotated_key, made.value)
    expected, gate = attention_expected(*given, precision)
    assert (expected.output == attention_pass(*given).output).all()
    np.testing.assert_allclose(gate.output, attention_tolerance(*given, precision).output, rtol=1e-6)


@pytest.mark.parametrize("precision", [Precision(), SINGLE], ids=["float64", "float32"])
def test_weights_of_a_long_prefix_are_formed_once(precision: Precision, monkeypatch: Any) -> None:
    walks: list[int] = []

    def counted(query: Any, key: Any) -> Any:
        walks.append(query.shape[3])
        return attend.causal_blocks(query, key)

    monkeypatch.setattr(long_bound, "causal_blocks", counted)
    layer_expected(*decode(150), precision)
    assert walks == [150]
