"""How far a correct implementation of a declared precision may lie from the exact result, per element.

The bound holds for any order of summation, blocking and fused operation, for every customary softmax and
scaling, cached or not. The derivation, its assumptions and its limits are `docs/error-bounds.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.adapter import Precision
from conformance.budget.attend import Attended, attend
from conformance.budget.bounds import AttentionBound, LayerBound
from conformance.budget.forward import LayerPass, is_dense, project
from conformance.budget.long_bound import mix_in_blocks
from conformance.budget.mixing_bound import Mixed, mix_dense
from conformance.budget.rotary import rotation
from conformance.budget.rotation_bound import rotated_error
from conformance.budget.score_bound import Operand, Operands, ScoreCosts
from conformance.budget.shapes import (
    LayerOperands,
    attention_operands,
    grouped,
    layer_operands,
    merge_heads,
    split_heads,
    ungrouped,
)
from conformance.budget.units import Array, Units, accumulated
from conformance.values import AttentionConfig, LayerConfig, LayerParameters


def layer_bound(
    config: LayerConfig,
    parameters: LayerParameters,
    rows: Any,
    precision: Precision,
    *,
    first_position: int = 0,
    eager: bool = False,
    row_errors: Any = None,
    dense: bool | None = None,
    expected: LayerPass | None = None,
) -> LayerBound:
    """The bound for rows [B,T,D] from `first_position` on, in the declared precision.

    eager: intermediates (scores, scaled queries, cosines and sines, products of the rotation) are stored in
    the storage dtype too. row_errors [B,T,D]: errors that the rows carry already. dense: None takes the
    dense form up to `DENSE_ROWS` rows and a somewhat larger one in memory of the size of the rows beyond.
    expected: the pass over these rows, where it is at hand. Raises TraceError where a shape does not fit.
    """
    given = layer_operands(config, parameters, rows)
    carried = None if row_errors is None else np.asarray(row_errors, dtype=np.float64)
    units = Units.of(precision, eager=eager)
    with np.errstate(all="ignore"):
        return bound_layer(
            config, given, units, first_position, dense=dense, expected=expected, row_errors=carried
        )


def bound_layer(
    config: LayerConfig,
    given: LayerOperands,
    units: Units,
    first_position: int,
    *,
    dense: bool | None = None,
    expected: LayerPass | None = None,
    row_errors: Array | None = None,
) -> LayerBound:
    """`layer_bound` on checked operands and arbitrary units."""
    count = given.rows.shape[1]
    before = project(config, given, first_position) if expected is None else expected
    rows = Operand(given.rows, np.zeros(()) if row_errors is None else row_errors)
    query = _projected(rows, given.query, before.query, units)
    key = _projected(rows, given.key, before.key, units)
    value = _projected(rows, given.value, before.value, units)
    turn = rotation(config.rope, config.head_width, first_position, count)
    rotated_query = rotated_error(turn, before.query, before.rotated_query, query, units)
    rotated_key = rotated_error(turn, before.key, before.rotated_key, key, units)
    groups = config.kv_heads
    mixed = _mix(
        Operands(
            Operand(grouped(before.rotated_query, groups), grouped(rotated_query, groups)),
            Operand(before.rotated_key, rotated_key),
            Operand(before.value, value),
        ),
        ScoreCosts.of(units, config.head_width, extra_products=0),
        units,
        dense=is_dense(count, dense),
        exact=None if expected is None else _attended(expected, groups),
    )
    heads, merged = ungrouped(mixed.error), merge_heads(ungrouped(mixed.error))
    exact = Operand(merge_heads(ungrouped(mixed.heads)), merged)
    output = _product_error(exact, given.output, units)
    if units.storage:
        output = units.stored(output, np.abs(exact.exact @ given.output))
    return LayerBound(
        output=output,
        query=query,
        key=key,
        value=value,
        rotated_query=rotated_query,
        rotated_key=rotated_key,
        heads=heads,
        merged=merged,
        spread=float(mixed.spread.max()),
        weights=None if mixed.weights is None else ungrouped(mixed.weights),
    )


def attention_bound(
    config: AttentionConfig,
    query: Any,
    key: Any,
    value: Any,
    precision: Precision,
    *,
    eager: bool = False,
    dense: bool | None = None,
) -> AttentionBound:
    """The bound for causal attention of rotated query [B,H,T,dk] over key [B,G,T,dk] and value [B,G,T,dv].

    The operands are exact; where they are stored more coarsely than computed with, that rounding counts.
    eager, dense and errors as for `layer_bound`.
    """
    q, k, v = attention_operands(config, query, key, value)
    units = Units.of(precision, eager=eager)
    groups = config.kv_heads
    with np.errstate(all="ignore"):
        kept = [units.stored(np.zeros_like(array), np.abs(array)) for array in (q, k, v)]
        mixed = _mix(
            Operands(
                Operand(grouped(q, groups), grouped(kept[0], groups)),
                Operand(k, kept[1]),
                Operand(v, kept[2]),
            ),
            # A scale split between query and key rounds every feature twice more. In a layer the allowance
            # for cosines and sines, twice what they need, covers it; here the operands come in exact.
            ScoreCosts.of(units, config.key_width, extra_products=2),
            units,
            dense=is_dense(q.shape[2], dense),
        )
    return AttentionBound(
        output=ungrouped(mixed.error),
        keys=kept[1],
        values=kept[2],
        spread=float(mixed.spread.max()),
        weights=None if mixed.weights is None else ungrouped(mixed.weights),
    )


def _mix(
    given: Operands, costs: ScoreCosts, units: Units, *, dense: bool, exact: Attended | None = None
) -> Mixed:
    if not dense:
        return mix_in_blocks(given, costs, units)
    if exact is None or exact.scores is None:
        exact = attend(given.query.exact, given.key.exact, given.value.exact, dense=True)
    return mix_dense(given, exact, costs, units)


def _attended(expected: LayerPass, groups: int) -> Attended:
    return Attended(
        heads=grouped(expected.heads, groups),
        scores=None if expected.scores is None else grouped(expected.scores, groups),
        weights=None if expected.weights is None else grouped(expected.weights, groups),
    )


def _projected(rows: Operand, weight: Array, heads: Array, units: Units) -> Array:
    error = split_heads(_product_error(rows, weight, units), heads.shape[1])
    return units.stored(error, np.abs(heads))


def _product_error(left: Operand, weight: Array, units: Units) -> Array:
    width = weight.shape[0]
    cost = left.error + accumulated(width, units.arithmetic) * left.reach
    error: Array = cost @ np.abs(weight) + 2.0 * width * units.underflow
    return error
