"""The full causal pass of a decoder, half a block at a time, on real rows and on complex ones.

A half block is a residual around attention or around the feed-forward part; block n is halves 2n and 2n + 1.
Complex rows serve `decoder_sensitivity`: their imaginary parts carry derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.budget.attend import attend, hidden
from conformance.budget.decoder_shapes import Tokens
from conformance.budget.forward import is_dense
from conformance.budget.rotary import rotation
from conformance.budget.shapes import grouped, merge_heads, split_heads, ungrouped
from conformance.budget.units import Array
from conformance.values import DecoderConfig

Numbers = NDArray[Any]
"""float64 or complex128."""

_VANISHED = -700.0
"""Below this x the product x / (1 + exp(-x)) is 0 for every purpose, and the exponential may overflow."""


@dataclass(frozen=True, eq=False)
class Half:
    """Rows [N,T,D] after half a block; keys and values [N,G,T,d] where the half was attention."""

    rows: Numbers
    keys: Numbers | None = None
    values: Numbers | None = None


def embedded(config: DecoderConfig, weights: Mapping[str, Array], tokens: Tokens) -> Array:
    """The rows [B,T,D] that enter the first block."""
    rows = weights["token_embedding.weight"][tokens]
    if config.positions == "learned":
        rows = rows + weights["position_embedding.weight"][: tokens.shape[1]]
    return rows


def halves(
    config: DecoderConfig, weights: Mapping[str, Array], rows: Numbers, first: int = 0
) -> Iterator[Half]:
    """Every half block from the first asked for on, one after the other."""
    for index in range(first, 2 * config.layers):
        at = f"blocks.{index // 2}"
        if index % 2:
            found = Half(rows + _feed_forward(config, weights, at, rows))
        else:
            found = _attention(config, weights, at, rows)
        rows = found.rows
        yield found


def logits_of(config: DecoderConfig, weights: Mapping[str, Array], rows: Numbers) -> Numbers:
    """Final norm and head."""
    head = weights["token_embedding.weight"].T if config.tied else weights["head.weight"]
    logits: Numbers = _norm(config, weights, "final_norm", rows) @ head
    return logits


def _norm(config: DecoderConfig, weights: Mapping[str, Array], name: str, rows: Numbers) -> Numbers:
    square = np.mean(rows * rows, axis=-1, keepdims=True)
    normed: Numbers = rows / np.sqrt(square + config.norm_epsilon) * weights[f"{name}.gain"]
    return normed


def _project(weights: Mapping[str, Array], name: str, rows: Numbers) -> Numbers:
    product: Numbers = rows @ weights[f"{name}.weight"]
    bias = weights.get(f"{name}.bias")
    return product if bias is None else product + bias


def _feed_forward(config: DecoderConfig, weights: Mapping[str, Array], at: str, rows: Numbers) -> Numbers:
    normed = _norm(config, weights, f"{at}.ffn_norm", rows)
    gate = _project(weights, f"{at}.ffn.gate", normed)
    gone = gate.real < _VANISHED
    silu = np.where(gone, 0.0, gate) / (1.0 + np.exp(-np.where(gone, 0.0, gate)))
    return _project(weights, f"{at}.ffn.down", silu * _project(weights, f"{at}.ffn.up", normed))


def _attention(config: DecoderConfig, weights: Mapping[str, Array], at: str, rows: Numbers) -> Half:
    layer = config.layer
    normed = _norm(config, weights, f"{at}.attention_norm", rows)
    query, keys, values = (
        split_heads(_project(weights, f"{at}.attention.{name}", normed), heads)
        for name, heads in (("query", layer.heads), ("key", layer.kv_heads), ("value", layer.kv_heads))
    )
    if config.positions == "rope":
        turn = rotation(layer.rope, layer.head_width, 0, rows.shape[1])
        query, keys = turn.apply(query), turn.apply(keys)
    queries = grouped(query, layer.kv_heads)
    if np.iscomplexobj(rows):
        mixed = _mixed(queries, keys, values)
    else:
        mixed = attend(queries, keys, values, dense=is_dense(rows.shape[1], None)).heads
    merged = merge_heads(ungrouped(mixed))
    return Half(rows + _project(weights, f"{at}.attention.output", merged), keys, values)


def _mixed(query: Numbers, key: Numbers, value: Numbers) -> Numbers:
    """Causal softmax attention of complex rows; the largest score is that of the real parts."""
    above = hidden(query.shape[-2])
    scores = query @ key[:, :, None].swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    largest = np.where(above, -np.inf, scores.real).max(axis=-1, keepdims=True)
    weights = np.where(above, 0.0, np.exp(scores - largest))
    mixed: Numbers = weights / weights.sum(axis=-1, keepdims=True) @ value[:, :, None]
    return mixed
