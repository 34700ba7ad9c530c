"""The uncached causal pass: every row of a sequence at once, and nothing in common with the cached step.

It is the yardstick that the layer offers for its own cached path, so it shares no calculation with it: heads
one at a time, positions as complex phases, an explicit causal mask, head outputs added up through slices
of the output weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference_impl.layer.config import LayerConfig
from reference_impl.layer.memory import Array
from reference_impl.layer_errors import NonFiniteError, StepError

Weights = tuple[Array, Array, Array, Array]
Phases = NDArray[np.complex128]
QUERY_BLOCK = 256
"""Queries scored at a time: memory for scores grows with the length, not with its square."""


def causal_pass(config: LayerConfig, weights: Weights, rows: Array) -> Array:
    """Outputs [B,T,D] of rows [B,T,D] at positions 0 to T - 1; weights are query, key, value, output.

    Raises StepError(NonFiniteError) for the first stage whose numbers are not all finite.
    """
    with np.errstate(all="ignore"):
        phases = _phases(config, rows.shape[1])
        return np.stack([_one_lane(config, weights, phases, lane) for lane in rows])


def _one_lane(config: LayerConfig, weights: Weights, phases: Phases, rows: Array) -> Array:
    d, shared = config.head_width, config.heads // config.kv_heads
    query_weight, key_weight, value_weight, output_weight = weights
    output = np.zeros((len(rows), config.model_width))
    for group in range(config.kv_heads):
        columns = slice(group * d, (group + 1) * d)
        key = _turn(_finite("key", rows @ key_weight[:, columns]), phases, config.rope.pairing)
        value = _finite("value", rows @ value_weight[:, columns])
        _finite("rotated_key", key)
        for head in range(group * shared, (group + 1) * shared):
            columns = slice(head * d, (head + 1) * d)
            query = _turn(_finite("query", rows @ query_weight[:, columns]), phases, config.rope.pairing)
            mixed = _attend(_finite("rotated_query", query), key, value)
            output += _finite("heads", mixed) @ output_weight[columns]
    return _finite("output", output)


def _phases(config: LayerConfig, length: int) -> Phases:
    d = config.head_width
    angles = [[p * config.rope.base ** (-(2 * i) / d) for i in range(d // 2)] for p in range(length)]
    return np.cos(angles) + 1j * np.sin(angles)


def _turn(rows: Array, phases: Phases, pairing: str) -> Array:
    # Pairs stand side by side as [T, d/2, 2] for adjacent features, [T, 2, d/2] for halves.
    across = 2 if pairing == "adjacent" else 1
    pairs = rows.reshape((len(rows), -1, 2) if across == 2 else (len(rows), 2, -1))
    turned = (np.take(pairs, 0, across) + 1j * np.take(pairs, 1, across)) * phases
    return np.stack([turned.real, turned.imag], axis=across).reshape(rows.shape)


def _attend(query: Array, key: Array, value: Array) -> Array:
    mixed = np.empty((len(query), value.shape[1]))
    for start in range(0, len(query), QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, len(query))
        score = query[start:stop] @ key[:stop].T / np.sqrt(key.shape[1])
        visible = np.arange(stop) <= np.arange(start, stop)[:, None]
        _finite("score", score[visible])
        score = np.where(visible, score, -np.inf)
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        mixed[start:stop] = (weight / weight.sum(axis=1, keepdims=True)) @ value[:stop]
    return mixed


def _finite(stage: str, numbers: Array) -> Array:
    if not np.isfinite(numbers).all():
        index = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise StepError(stage, NonFiniteError(index, float(numbers.ravel()[index])))
    return numbers
