"""Expected values and their gates together: for long prefixes in one walk over the weights.

A pass and the bounds of one or two precisions need the same weights. For a prefix that is not dense they are
formed once, so that all of it costs about two passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.adapter import Precision
from conformance.budget.attend import Attended
from conformance.budget.bound import (
    attention_bound_of,
    attention_costs,
    attention_mixing,
    kept_errors,
    layer_bound_of,
    stage_errors,
)
from conformance.budget.bounds import AttentionBound, LayerBound
from conformance.budget.forward import (
    AttentionPass,
    LayerPass,
    attention_pass,
    is_dense,
    layer_pass,
    layer_pass_of,
    project,
)
from conformance.budget.long_bound import Claim, mix_all_in_blocks
from conformance.budget.score_bound import ScoreCosts
from conformance.budget.shapes import attention_operands, layer_operands, ungrouped
from conformance.budget.tolerance import PASS_PRECISION, attention_tolerance, layer_tolerance, tolerance
from conformance.budget.units import Units
from conformance.values import AttentionConfig, LayerConfig, LayerParameters


def layer_expected(
    config: LayerConfig,
    parameters: LayerParameters,
    rows: Any,
    precision: Precision,
    *,
    first_position: int = 0,
    eager: bool = False,
    dense: bool | None = None,
) -> tuple[LayerPass, LayerBound]:
    """`layer_pass` and `layer_tolerance` of the same rows [B,T,D], with the arguments of both."""
    given = layer_operands(config, parameters, rows)
    if is_dense(given.rows.shape[1], dense):
        found = layer_pass(config, parameters, rows, first_position=first_position, dense=True)
        gate = layer_tolerance(
            config, parameters, rows, precision, first_position=first_position, eager=eager, expected=found
        )
        return found, gate
    with np.errstate(all="ignore"):
        before = project(config, given, first_position)
        units = _both(precision, eager=eager)
        errors = [stage_errors(config, given, before, u, first_position, dense=False) for u in units]
        costs = [ScoreCosts.of(u, config.head_width, extra_products=0) for u in units]
        operands = [e.operands(before, config.kv_heads) for e in errors]
        mixed = mix_all_in_blocks([Claim(*claim) for claim in zip(operands, costs, units, strict=True)])
        bounds = [
            layer_bound_of(given, e, m, u, dense=False) for e, m, u in zip(errors, mixed, units, strict=True)
        ]
        return layer_pass_of(before, Attended(mixed[0].heads), given), tolerance(bounds[-1], bounds[0])


def attention_expected(
    config: AttentionConfig,
    query: Any,
    key: Any,
    value: Any,
    precision: Precision,
    *,
    eager: bool = False,
    dense: bool | None = None,
) -> tuple[AttentionPass, AttentionBound]:
    """`attention_pass` and `attention_tolerance` of the same operands, with the arguments of both."""
    operands = attention_operands(config, query, key, value)
    if is_dense(operands[0].shape[2], dense):
        found = attention_pass(config, query, key, value, dense=True)
        return found, attention_tolerance(config, query, key, value, precision, eager=eager)
    with np.errstate(all="ignore"):
        units = _both(precision, eager=eager)
        kept = [kept_errors(operands, u) for u in units]
        mixed = mix_all_in_blocks(
            [
                Claim(attention_mixing(config, operands, k), attention_costs(config, u), u)
                for k, u in zip(kept, units, strict=True)
            ]
        )
        bounds = [attention_bound_of(k, m) for k, m in zip(kept, mixed, strict=True)]
        return AttentionPass(ungrouped(mixed[0].heads), None, None), tolerance(bounds[-1], bounds[0])


def _both(precision: Precision, *, eager: bool) -> list[Units]:
    """The units of the pass, and those of the implementation where they differ."""
    own = Units.of(PASS_PRECISION)
    return [own] if precision == PASS_PRECISION else [own, Units.of(precision, eager=eager)]
