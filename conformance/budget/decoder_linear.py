"""The linearised bound: every half block's own rounding, carried to the results by derivatives.

What half s rounds when it is given exact rows is bounded element by element; how far that moves what comes
behind is the derivative of everything behind. Second-order terms are taken in by a factor that follows from
the largest relative error.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conformance.budget.decoder_blocks import attention_half, embedding, feed_forward_half, head
from conformance.budget.decoder_composed import Errors
from conformance.budget.decoder_forward import embedded, halves
from conformance.budget.decoder_sensitivity import moved
from conformance.budget.decoder_shapes import Tokens
from conformance.budget.decoder_stages import exact
from conformance.budget.score_bound import Operand
from conformance.budget.units import Array, Units
from conformance.values import DecoderConfig

_CURVATURE = 8.0
"""A generous second derivative of norm, softmax and activation where their relative error is 1."""


def linearised(config: DecoderConfig, weights: Mapping[str, Array], tokens: Tokens, units: Units) -> Errors:
    """The bound for tokens [B,T]."""
    first = embedded(config, weights, tokens)
    found = list(halves(config, weights, first))
    rows = [first, *(half.rows for half in found)]
    own = [embedding(config, weights, tokens, units).error]
    keys, values = [], []
    for block in range(config.layers):
        made, seen = attention_half(config, weights, block, exact(rows[2 * block]), units)
        own.append(made.error)
        keys.append(seen.keys.error)
        values.append(seen.values.error)
        own.append(feed_forward_half(config, weights, block, exact(rows[2 * block + 1]), units)[0].error)
    carried = moved(config, weights, rows, own)
    size = _size(config, weights, rows, [a + b for a, b in zip(own, carried.rows, strict=True)], units)
    lift = 1.0 + _CURVATURE * size
    return Errors(
        logits=lift * (head(config, weights, exact(rows[-1]), units).error + carried.logits),
        keys=lift * (np.stack(keys) + carried.keys),
        values=lift * (np.stack(values) + carried.values),
        size=size,
    )


def _size(
    config: DecoderConfig, weights: Mapping[str, Array], rows: list[Array], errors: list[Array], units: Units
) -> float:
    """The largest relative error of a row, of attention weights, or of a gate, with all that is carried."""
    size = 0.0
    for index, (state, error) in enumerate(zip(rows, errors, strict=True)):
        level = np.sqrt(np.mean(state * state, axis=-1, keepdims=True) + config.norm_epsilon)
        size = max(size, float((error / level).max()))
        if index == 2 * config.layers:
            break
        given = Operand(state, error)
        if index % 2:
            _, gate = feed_forward_half(config, weights, index // 2, given, units)
            size = max(size, float(gate.error.max()))
        else:
            _, seen = attention_half(config, weights, index // 2, given, units)
            size = max(size, seen.spread)
    return size
