"""The composed bound: each half block is given the error of the one before, element by element.

It keeps products of errors and holds without any assumption on their size, for prefixes of any length. It
takes absolute values at every matrix, so it grows by a constant factor with every block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from conformance.budget.decoder_blocks import attention_half, embedding, feed_forward_half, head
from conformance.budget.decoder_shapes import Tokens
from conformance.budget.units import Array, Units
from conformance.values import DecoderConfig


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of logits [B,T,V], keys and values [L,B,G,T,d]; size: the largest relative error inside."""

    logits: Array
    keys: Array
    values: Array
    size: float


def composed(config: DecoderConfig, weights: Mapping[str, Array], tokens: Tokens, units: Units) -> Errors:
    """The bound for tokens [B,T]."""
    rows = embedding(config, weights, tokens, units)
    keys, values, size = [], [], 0.0
    for block in range(config.layers):
        rows, seen = attention_half(config, weights, block, rows, units)
        rows, gate = feed_forward_half(config, weights, block, rows, units)
        keys.append(seen.keys.error)
        values.append(seen.values.error)
        size = max(size, seen.spread, float(gate.error.max()))
    return Errors(head(config, weights, rows, units).error, np.stack(keys), np.stack(values), size)
