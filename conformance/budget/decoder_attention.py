"""Attention inside a decoder block, on rows that carry errors; with or without biases and rotation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conformance.budget.attend import attend
from conformance.budget.forward import is_dense
from conformance.budget.long_bound import mix_in_blocks
from conformance.budget.mixing_bound import mix_dense
from conformance.budget.rotary import rotation
from conformance.budget.rotation_bound import rotated_error
from conformance.budget.score_bound import Operand, Operands, ScoreCosts
from conformance.budget.shapes import grouped, merge_heads, split_heads, ungrouped
from conformance.budget.units import Units
from conformance.values import DecoderConfig


@dataclass(frozen=True, eq=False)
class Attended:
    """merged [B,T,H*d]; keys as a cache keeps them and values [B,G,T,d]; spread as in `LayerBound`."""

    merged: Operand
    keys: Operand
    values: Operand
    spread: float


def attended(config: DecoderConfig, project: Callable[[str], Operand], units: Units) -> Attended:
    """Causal attention of a whole prefix; `project` gives the projected rows [B,T,*] of a name."""
    layer, rotates = config.layer, config.positions == "rope"
    query = _split(project("query"), layer.heads)
    keys, values = (_split(project(name), layer.kv_heads) for name in ("key", "value"))
    count = keys.exact.shape[2]
    if rotates:
        query, keys = _rotated(config, query, units), _rotated(config, keys, units)
    operands = Operands(
        Operand(grouped(query.exact, layer.kv_heads), grouped(query.error, layer.kv_heads)), keys, values
    )
    # Where nothing is rotated, a scale that is split between query and key rounds each feature twice more.
    costs = ScoreCosts.of(units, layer.head_width, extra_products=0 if rotates else 2)
    if is_dense(count, None):
        dense = attend(operands.query.exact, keys.exact, values.exact, dense=True)
        mixed = mix_dense(operands, dense, costs, units)
    else:
        mixed = mix_in_blocks(operands, costs, units)
    merged = Operand(merge_heads(ungrouped(mixed.heads)), merge_heads(ungrouped(mixed.error)))
    return Attended(merged, keys, values, float(mixed.spread.max()))


def _split(rows: Operand, heads: int) -> Operand:
    return Operand(split_heads(rows.exact, heads), split_heads(rows.error, heads))


def _rotated(config: DecoderConfig, heads: Operand, units: Units) -> Operand:
    layer = config.layer
    turn = rotation(layer.rope, layer.head_width, 0, heads.exact.shape[2])
    turned = turn.apply(heads.exact)
    error = rotated_error(turn, heads.exact, turned, heads.error, units)
    return Operand(turned, np.asarray(error))


