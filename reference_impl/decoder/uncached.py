"""The uncached pass of a whole model: the yardstick that the decoder offers for its own cached path.

Attention is written out anew, one head of one lane at a time over a whole sequence, with complex phases and
an explicit mask; only the formulas outside attention are those of the cached path.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reference_impl.decoder.kernels import mean_square, rms_norm, silu
from reference_impl.decoder.model import DecoderModel
from reference_impl.layer.memory import Array


def full_prefix(model: DecoderModel, tokens: ArrayLike) -> Array:
    """Logits [B,T,V] of whole sequences of tokens [B,T] from position 0. Nothing is checked, nothing kept."""
    given = np.asarray(tokens, dtype=np.intp)
    with np.errstate(all="ignore"):
        return np.stack([_one_lane(model, lane) for lane in given])


def _one_lane(model: DecoderModel, tokens: Array) -> Array:
    rows = model.value("token_embedding.weight")[tokens]
    if model.config.positions == "learned":
        rows = rows + model.value("position_embedding.weight")[: len(tokens)]
    for block in range(model.config.layers):
        at = f"blocks.{block}"
        rows = rows + _attention(model, f"{at}.attention", _norm(model, f"{at}.attention_norm", rows))
        normed = _norm(model, f"{at}.ffn_norm", rows)
        hidden = silu(_project(model, f"{at}.ffn.gate", normed)) * _project(model, f"{at}.ffn.up", normed)
        rows = rows + _project(model, f"{at}.ffn.down", hidden)
    logits: Array = _norm(model, "final_norm", rows) @ model.head()
    return logits


def _norm(model: DecoderModel, name: str, rows: Array) -> Array:
    return rms_norm(rows, mean_square(rows), model.value(f"{name}.gain"), model.config.norm_epsilon)


def _project(model: DecoderModel, name: str, rows: Array) -> Array:
    product: Array = rows @ model.value(f"{name}.weight")
    return product + model.value(f"{name}.bias") if model.config.biases else product


def _attention(model: DecoderModel, at: str, rows: Array) -> Array:
    config, d, T = model.config.layer, model.config.layer.head_width, len(rows)
    query, key, value = (_project(model, f"{at}.{name}", rows) for name in ("query", "key", "value"))
    visible = np.tri(T, dtype=bool)
    mixed = []
    for head in range(config.heads):
        own = slice(head * d, (head + 1) * d)
        group = head // (config.heads // config.kv_heads)
        shared = slice(group * d, (group + 1) * d)
        score = _turn(model, query[:, own]) @ _turn(model, key[:, shared]).T / np.sqrt(d)
        score = np.where(visible, score, -np.inf)
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        mixed.append(weight / weight.sum(axis=1, keepdims=True) @ value[:, shared])
    return _project(model, f"{at}.output", np.hstack(mixed))


def _turn(model: DecoderModel, rows: Array) -> Array:
    """Row t of one head, [T, d], at position t: each pair of features a complex number, times a phase."""
    if model.config.positions != "rope":
        return rows
    rope, (T, d) = model.config.layer.rope, rows.shape
    angle = np.outer(np.arange(T), [rope.base ** (-2 * i / d) for i in range(d // 2)])
    adjacent = rope.pairing == "adjacent"
    pairs = rows.reshape(T, d // 2, 2) if adjacent else rows.reshape(T, 2, d // 2).swapaxes(1, 2)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angle)
    parts = np.stack([turned.real, turned.imag], axis=-1 if adjacent else 1)
    return parts.reshape(T, d)
