"""Where the expected value was computed too, its own error is part of the gate."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.adapter import Precision
from conformance.budget import (
    Units,
    attention_bound,
    attention_tolerance,
    layer_bound,
    layer_tolerance,
    tolerance,
    unit_roundoff,
)
from conformance.errors import AdapterError
from conformance.values import AttentionConfig
from tests.budget_fixtures import mod

SINGLE = Precision("float32", "float32", "float32", "float32")
FIELDS = ("output", "keys", "values", "weights", "heads", "merged", "query", "key", "rotated_query")


def test_two_float64_computations_may_differ_by_twice_the_bound() -> None:
    fixture = mod()
    bound, gate = layer_bound(*fixture, Precision()), layer_tolerance(*fixture, Precision())
    for field in FIELDS:
        assert (getattr(gate, field) >= 2 * getattr(bound, field)).all(), field
        np.testing.assert_allclose(getattr(gate, field), 2 * getattr(bound, field), rtol=2e-6, atol=0)


def test_a_coarser_implementation_gains_only_the_error_of_the_pass() -> None:
    fixture = mod()
    theirs, own = layer_bound(*fixture, SINGLE), layer_bound(*fixture, Precision())
    gate = layer_tolerance(*fixture, SINGLE)
    for field in FIELDS:
        assert (getattr(gate, field) >= getattr(theirs, field) + getattr(own, field)).all(), field
        np.testing.assert_allclose(getattr(gate, field), getattr(theirs, field), rtol=1e-5, atol=0)
    assert gate.spread == pytest.approx(theirs.spread, rel=1e-5)


def test_the_gate_keeps_what_the_implementation_bound_says_of_its_precision() -> None:
    coarse = Precision("bfloat16", "bfloat16", "bfloat16", "bfloat16")
    assert not layer_tolerance(*mod(), coarse).applicable
    assert layer_tolerance(*mod(), SINGLE).applicable


def test_options_reach_the_bounds() -> None:
    fixture = mod(base=1e4)
    near, far = layer_tolerance(*fixture, SINGLE), layer_tolerance(*fixture, SINGLE, first_position=9999)
    assert far.keys.max() > 10 * near.keys.max()
    half = Precision("float16", "float32", "float32", "float32")
    eager, flash = layer_tolerance(*fixture, half, eager=True), layer_tolerance(*fixture, half)
    assert eager.output.max() > 1.2 * flash.output.max()


def test_a_field_that_one_side_lacks_is_lacking_in_the_sum() -> None:
    fixture = mod()
    dense = layer_bound(*fixture, Precision(), dense=True)
    blocks = layer_bound(*fixture, Precision(), dense=False)
    assert tolerance(blocks, dense).weights is None
    assert tolerance(dense, blocks).weights is None
    assert tolerance(dense, blocks).spread == tolerance(blocks, dense).spread >= blocks.spread
    assert (tolerance(dense, blocks).output >= dense.output + blocks.output).all()


def test_attention_alone_adds_the_error_of_the_pass_too() -> None:
    r = np.random.default_rng(1)
    query, key, value = (r.standard_normal((1, heads, 5, 4)) for heads in (4, 2, 2))
    config = AttentionConfig(4, 2, 4, 4)
    gate = attention_tolerance(config, query, key, value, SINGLE)
    theirs = attention_bound(config, query, key, value, SINGLE)
    own = attention_bound(config, query, key, value, Precision())
    assert (gate.output >= theirs.output + own.output).all()
    assert not gate.keys.any()
    both = attention_tolerance(config, query, key, value, Precision())
    np.testing.assert_allclose(both.output, 2 * own.output, rtol=2e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_roundoff_is_half_the_gap_above_one(dtype: str) -> None:
    assert unit_roundoff(dtype) == np.finfo(dtype).eps / 2


def test_bfloat16_keeps_eight_bits() -> None:
    assert unit_roundoff("bfloat16") == 2.0**-8


def test_an_unknown_dtype_is_named_with_those_that_are_known() -> None:
    with pytest.raises(AdapterError, match=r"'int8'.*float64, float32, float16, bfloat16"):
        unit_roundoff("int8")


def test_numbers_that_change_their_dtype_on_the_way_are_rounded_once_more() -> None:
    wide_angles = Units.of(Precision("float32", "float32", "float32", "float64"))
    assert (wide_angles.table, wide_angles.cast) == (2.0**-24, 0)
    narrow_softmax = Units.of(Precision(softmax="float32"))
    assert (narrow_softmax.table, narrow_softmax.cast) == (0, 2.0**-24)
    assert narrow_softmax.mixing == 2.0**-24
    assert Units.of(Precision("float32", "float32", "float64", "float32")).mixing == 2.0**-24


def test_storage_costs_nothing_where_it_is_as_fine_as_the_arithmetic() -> None:
    assert Units.of(SINGLE).storage == 0
    assert Units.of(Precision("float64", "float32", "float32", "float32")).storage == 0
    assert Units.of(Precision("float32", "float64", "float64", "float64")).storage == 2.0**-24
