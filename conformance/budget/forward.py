"""The full-prefix pass in float64: the expected values of every row at once.

By causality one pass over n rows holds the expected values of every append of a decode, whatever its
chunks. It shares no code with the implementations under `reference_impl`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.budget.attend import DENSE_ROWS, Attended, attend
from conformance.budget.rotary import rotation
from conformance.budget.shapes import (
    LayerOperands,
    attention_operands,
    grouped,
    layer_operands,
    merge_heads,
    split_heads,
    ungrouped,
)
from conformance.budget.units import Array
from conformance.values import AttentionConfig, LayerConfig, LayerParameters


@dataclass(frozen=True, eq=False)
class LayerPass:
    """Every stage of a layer over a whole prefix of T rows.

    query, rotated_query and heads [B,H,T,d]; key, value and rotated_key [B,G,T,d]; scores and weights
    [B,H,T,T] with zeros above the diagonal, None for a long prefix; merged [B,T,H*d]; output [B,T,D].
    """

    query: Array
    key: Array
    value: Array
    rotated_query: Array
    rotated_key: Array
    scores: Array | None
    weights: Array | None
    heads: Array
    merged: Array
    output: Array


@dataclass(frozen=True, eq=False)
class AttentionPass:
    """output [B,H,T,dv]; scores and weights [B,H,T,T], zero above the diagonal, None for a long prefix."""

    output: Array
    scores: Array | None
    weights: Array | None


def layer_pass(
    config: LayerConfig,
    parameters: LayerParameters,
    rows: Any,
    *,
    first_position: int = 0,
    dense: bool | None = None,
) -> LayerPass:
    """The layer over rows [B,T,D], the first of which stands at absolute position `first_position`.

    dense: keep scores and weights; None keeps them up to `DENSE_ROWS` rows. Without them the memory is that
    of the rows and of one block of query rows. Numbers that overflow come out as infinities or NaN without
    a warning. Raises TraceError where a shape does not fit.
    """
    with np.errstate(all="ignore"):
        return run_layer(config, layer_operands(config, parameters, rows), first_position, dense=dense)


@dataclass(frozen=True, eq=False)
class Projections:
    """What attention gets: query and rotated_query [B,H,T,d]; key, value and rotated_key [B,G,T,d]."""

    query: Array
    key: Array
    value: Array
    rotated_query: Array
    rotated_key: Array


def project(config: LayerConfig, given: LayerOperands, first_position: int) -> Projections:
    """Project, split into heads and rotate."""
    query = split_heads(given.rows @ given.query, config.heads)
    key = split_heads(given.rows @ given.key, config.kv_heads)
    value = split_heads(given.rows @ given.value, config.kv_heads)
    turn = rotation(config.rope, config.head_width, first_position, given.rows.shape[1])
    return Projections(query, key, value, turn.apply(query), turn.apply(key))


def run_layer(
    config: LayerConfig, given: LayerOperands, first_position: int, *, dense: bool | None
) -> LayerPass:
    """`layer_pass` on operands that have been checked."""
    before = project(config, given, first_position)
    attended = attend(
        grouped(before.rotated_query, config.kv_heads),
        before.rotated_key,
        before.value,
        dense=is_dense(given.rows.shape[1], dense),
    )
    return layer_pass_of(before, attended, given)


def layer_pass_of(before: Projections, attended: Attended, given: LayerOperands) -> LayerPass:
    """Every stage, once attention is done."""
    heads = ungrouped(attended.heads)
    merged = merge_heads(heads)
    return LayerPass(
        query=before.query,
        key=before.key,
        value=before.value,
        rotated_query=before.rotated_query,
        rotated_key=before.rotated_key,
        scores=None if attended.scores is None else ungrouped(attended.scores),
        weights=None if attended.weights is None else ungrouped(attended.weights),
        heads=heads,
        merged=merged,
        output=merged @ given.output,
    )


def attention_pass(
    config: AttentionConfig, query: Any, key: Any, value: Any, *, dense: bool | None = None
) -> AttentionPass:
    """Causal attention of query [B,H,T,dk] over key [B,G,T,dk] and value [B,G,T,dv], rotated already.

    dense, memory, overflow and errors as for `layer_pass`.
    """
    q, k, v = attention_operands(config, query, key, value)
    with np.errstate(all="ignore"):
        attended = attend(grouped(q, config.kv_heads), k, v, dense=is_dense(q.shape[2], dense))
    return AttentionPass(
        output=ungrouped(attended.heads),
        scores=None if attended.scores is None else ungrouped(attended.scores),
        weights=None if attended.weights is None else ungrouped(attended.weights),
    )


def is_dense(count: int, asked: bool | None) -> bool:
    """Whether scores and weights of `count` rows are kept."""
    return count <= DENSE_ROWS if asked is None else asked
