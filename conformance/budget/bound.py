"""How far a correct implementation of a declared precision may lie from the exact result, per element.

The bound holds for any order of summation, blocking and fused operation, for every customary softmax and
scaling, cached or not. The derivation, its assumptions and its limits are `docs/error-bounds.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.adapter import Precision
from conformance.budget.attend import Attended, attend
from conformance.budget.bounds import AttentionBound, LayerBound
from conformance.budget.forward import LayerPass, Projections, is_dense, project
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

_TINY = 2.0**-1000


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
    dense = is_dense(given.rows.shape[1], dense)
    before = project(config, given, first_position) if expected is None else expected
    errors = stage_errors(config, given, before, units, first_position, dense=dense, row_errors=row_errors)
    mixed = _mix(
        errors.operands(before, config.kv_heads),
        ScoreCosts.of(units, config.head_width, extra_products=0),
        units,
        dense=dense,
        exact=None if expected is None else _attended(expected, config.kv_heads),
    )
    return layer_bound_of(given, errors, mixed, units, dense=dense)


@dataclass(frozen=True, eq=False)
class StageErrors:
    """Errors of what attention gets: query and rotated_query [B,H,T,d]; the others [B,G,T,d]."""

    query: Array
    key: Array
    value: Array
    rotated_query: Array
    rotated_key: Array

    def operands(self, before: Projections | LayerPass, groups: int) -> Operands:
        """What attention gets, with these errors."""
        return Operands(
            Operand(grouped(before.rotated_query, groups), grouped(self.rotated_query, groups)),
            Operand(before.rotated_key, self.rotated_key),
            Operand(before.value, self.value),
        )


def stage_errors(
    config: LayerConfig,
    given: LayerOperands,
    before: Projections | LayerPass,
    units: Units,
    first_position: int,
    *,
    dense: bool,
    row_errors: Array | None = None,
) -> StageErrors:
    """The errors of projection and rotation; dense: without the saving that long prefixes allow."""
    rows = Operand(given.rows, np.zeros(()) if row_errors is None else row_errors)
    weights = (given.query, given.key, given.value)
    heads = (before.query, before.key, before.value)
    query, key, value = (
        units.stored(split_heads(error, exact.shape[1]), np.abs(exact))
        for error, exact in zip(_product_errors(rows, weights, units, dense=dense), heads, strict=True)
    )
    turn = rotation(config.rope, config.head_width, first_position, given.rows.shape[1])
    return StageErrors(
        query=query,
        key=key,
        value=value,
        rotated_query=rotated_error(turn, before.query, before.rotated_query, query, units),
        rotated_key=rotated_error(turn, before.key, before.rotated_key, key, units),
    )


def layer_bound_of(
    given: LayerOperands, errors: StageErrors, mixed: Mixed, units: Units, *, dense: bool
) -> LayerBound:
    """The bound of every field, once the error of mixing is known."""
    heads, merged = ungrouped(mixed.error), merge_heads(ungrouped(mixed.error))
    exact = Operand(merge_heads(ungrouped(mixed.heads)), merged)
    (output,) = _product_errors(exact, (given.output,), units, dense=dense)
    if units.storage:
        output = units.stored(output, np.abs(exact.exact @ given.output))
    return LayerBound(
        output=output,
        query=errors.query,
        key=errors.key,
        value=errors.value,
        rotated_query=errors.rotated_query,
        rotated_key=errors.rotated_key,
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
    operands = attention_operands(config, query, key, value)
    units = Units.of(precision, eager=eager)
    with np.errstate(all="ignore"):
        kept = kept_errors(operands, units)
        mixed = _mix(
            attention_mixing(config, operands, kept),
            attention_costs(config, units),
            units,
            dense=is_dense(operands[0].shape[2], dense),
        )
    return attention_bound_of(kept, mixed)


Three = tuple[Array, Array, Array]


def kept_errors(operands: Three, units: Units) -> Three:
    """What storing exact query, key and value costs."""
    query, key, value = (units.stored(np.zeros_like(array), np.abs(array)) for array in operands)
    return query, key, value


def attention_mixing(config: AttentionConfig, operands: Three, kept: Three) -> Operands:
    """Query, key and value with the errors that storing them made."""
    groups = config.kv_heads
    query = Operand(grouped(operands[0], groups), grouped(kept[0], groups))
    return Operands(query, Operand(operands[1], kept[1]), Operand(operands[2], kept[2]))


def attention_costs(config: AttentionConfig, units: Units) -> ScoreCosts:
    """A scale split between query and key rounds every feature twice more.

    In a layer the allowance for cosines and sines, twice what they need, covers it; here operands are exact.
    """
    return ScoreCosts.of(units, config.key_width, extra_products=2)


def attention_bound_of(kept: Three, mixed: Mixed) -> AttentionBound:
    """The bound of every field, once the error of mixing is known."""
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


def _product_errors(left: Operand, weights: tuple[Array, ...], units: Units, *, dense: bool) -> list[Array]:
    """The error of left @ weight for every weight; all have as many rows."""
    width = weights[0].shape[0]
    cost = left.reach * accumulated(width, units.arithmetic)
    cost += left.error
    floor = 2.0 * width * units.underflow
    if dense:
        return [cost @ np.abs(weight) + floor for weight in weights]
    errors = _narrow_product(cost, weights)
    errors += floor
    return np.split(errors, np.cumsum([weight.shape[1] for weight in weights])[:-1], axis=-1)


def _narrow_product(left: Array, weights: tuple[Array, ...]) -> Array:
    """left @ |weights side by side|, never too small, in single precision, which halves its cost.

    Both are scaled to at most 1, so that what underflows is less than 2**-126 a term; the sum of n products
    loses at most n + 2 roundings of its own size, and scaling a few more.
    """
    width = left.shape[-1]
    scale = max(float(left.max()), _TINY)
    size = max(*(max(float(w.max()), -float(w.min())) for w in weights), _TINY)
    rows = np.empty(left.shape, dtype=np.float32)
    np.multiply(left, 1.0 / scale, out=rows, casting="same_kind")
    columns = np.empty((width, sum(w.shape[1] for w in weights)), dtype=np.float32)
    start = 0
    for weight in weights:
        own = columns[:, start : start + weight.shape[1]]
        np.multiply(weight, 1.0 / size, out=own, casting="same_kind")
        start += weight.shape[1]
    np.abs(columns, out=columns)
    product: Array = (rows @ columns).astype(np.float64)
    product *= (1.0 + (width + 6.0) * 2.0**-23) * scale * size
    product += width * 2.0**-120 * scale * size
    return product
