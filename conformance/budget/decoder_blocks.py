"""Halves of decoder blocks, head and embedding on rows that carry errors: what each of them adds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conformance.budget.decoder_attention import Attended, attended
from conformance.budget.decoder_shapes import Tokens
from conformance.budget.decoder_stages import added, exact, gated, linear, rms_norm
from conformance.budget.score_bound import Operand
from conformance.budget.units import Array, Units
from conformance.values import DecoderConfig

Weights = Mapping[str, Array]


def embedding(config: DecoderConfig, weights: Weights, tokens: Tokens, units: Units) -> Operand:
    """The rows that enter the first block; only a learned position is ever added, and rounded."""
    rows = exact(weights["token_embedding.weight"][tokens])
    if config.positions != "learned":
        return rows
    table = weights["position_embedding.weight"][: tokens.shape[1]]
    return added(rows, exact(np.broadcast_to(table, rows.exact.shape)), units)


def attention_half(
    config: DecoderConfig, weights: Weights, block: int, rows: Operand, units: Units
) -> tuple[Operand, Attended]:
    """Rows after the residual around attention, and the attention itself."""
    at = f"blocks.{block}"
    normed = _norm(config, weights, f"{at}.attention_norm", rows, units)
    seen = attended(config, lambda name: _project(weights, f"{at}.attention.{name}", normed, units), units)
    return added(rows, _project(weights, f"{at}.attention.output", seen.merged, units), units), seen


def feed_forward_half(
    config: DecoderConfig, weights: Weights, block: int, rows: Operand, units: Units
) -> tuple[Operand, Operand]:
    """Rows after the residual around the feed-forward part, and its gate before the activation."""
    at = f"blocks.{block}"
    normed = _norm(config, weights, f"{at}.ffn_norm", rows, units)
    gate = _project(weights, f"{at}.ffn.gate", normed, units)
    hidden = gated(gate, _project(weights, f"{at}.ffn.up", normed, units), units)
    return added(rows, _project(weights, f"{at}.ffn.down", hidden, units), units), gate


def head(config: DecoderConfig, weights: Weights, rows: Operand, units: Units) -> Operand:
    """Logits."""
    matrix = weights["token_embedding.weight"].T if config.tied else weights["head.weight"]
    return linear(_norm(config, weights, "final_norm", rows, units), matrix, None, units)


def _norm(config: DecoderConfig, weights: Weights, name: str, rows: Operand, units: Units) -> Operand:
    return rms_norm(rows, weights[f"{name}.gain"], config.norm_epsilon, units)


def _project(weights: Weights, name: str, rows: Operand, units: Units) -> Operand:
    return linear(rows, weights[f"{name}.weight"], weights.get(f"{name}.bias"), units)
