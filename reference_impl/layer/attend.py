"""Attention of new rows over retained rows, read where they lie, and over themselves."""

from __future__ import annotations

from math import sqrt

import numpy as np

from reference_impl.layer.memory import MAX_ELEMENTS, Array
from reference_impl.layer.stages import Stages


def attend(
    stages: Stages, query: Array, past: tuple[Array, Array], new: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Weights [B,H,T,n] and head outputs [B,H,T,dv] of new rows, causal and aligned at the bottom right.

    query [B,H,T,dk], rotated; past: retained keys [B,G,p,dk] and values [B,G,p,dv], views of the storage,
    never copied or joined; new: keys and values of the new rows, with T rows; n = p + T. Scores are dot
    products times 1/sqrt(dk). Query heads of one group are stacked as rows, so that keys and values are
    not repeated. Raises StepError of the stages score, softmax and heads.
    """
    (old_keys, old_values), (new_keys, new_values) = past, new
    B, H, T, key_width = query.shape
    G, p, value_width = old_keys.shape[1], old_keys.shape[2], new_values.shape[3]
    rows = H // G * T

    stages.enter("score", B * H * T * (p + T))
    if stages.elements > MAX_ELEMENTS:
        stages.count(B, H)
        stages.count(B, H, T, p + T)
    scores = stages.allocate((B, G, rows, p + T))
    grouped = query.reshape(B, G, rows, key_width)
    if p:
        np.matmul(grouped, old_keys.swapaxes(-1, -2), out=scores[..., :p])
    np.matmul(grouped, new_keys.swapaxes(-1, -2), out=scores[..., p:])
    scores *= 1.0 / sqrt(key_width)
    if T == 1:
        stages.finite(scores)
    else:
        _mask_future(stages, scores, scores.reshape(B, G, H // G, T, p + T)[..., p:])

    stages.enter("softmax", scores.size)
    weights = scores
    weights -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    total = np.add.reduce(weights, axis=-1, keepdims=True)
    if stages.every:
        stages.finite(total)
    weights /= total

    stages.enter("heads", B * H * T * value_width)
    if stages.elements > MAX_ELEMENTS:
        stages.count(B, H, T, value_width)
    heads = np.matmul(weights[..., p:], new_values)
    if p:
        heads += np.matmul(weights[..., :p], old_values)
    return weights.reshape(B, H, T, p + T), stages.finite(heads).reshape(B, H, T, -1)


def _mask_future(stages: Stages, scores: Array, own: Array) -> None:
    """Leave each new row only itself and its elders; own is the view [B,G,H/G,T,T] of scores.

    A score that no query sees may be anything and must not fail the finite check: while that is made, the
    score of the query's own row stands in its place.
    """
    T = own.shape[-1]
    future = np.arange(T)[:, None] < np.arange(T)
    itself = np.diagonal(own, axis1=-2, axis2=-1)[..., None].copy()
    np.copyto(own, itself, where=future)
    stages.finite(scores)
    np.copyto(own, -np.inf, where=future)
