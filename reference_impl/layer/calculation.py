"""The calculation of one step: everything is computed, nothing is written."""

from __future__ import annotations

import numpy as np

from reference_impl.layer.attend import attend
from reference_impl.layer.cache import LayerCache
from reference_impl.layer.layer import Layer
from reference_impl.layer.memory import Array
from reference_impl.layer.result import Evidence, Prepared, StepResult, WorkCounts
from reference_impl.layer.stages import Stages
from reference_impl.layer_errors import CacheError, NonFiniteError, StepError


def calculate(layer: Layer, cache: LayerCache, rows: Array, *, evidence: bool) -> Prepared:
    """The result and the ticket of a step of rows [B,T,D]; checks no precondition.

    Raises StepError of the first stage that cannot be had or holds a number that is not finite.
    """
    stages = Stages(every=False)
    try:
        with np.errstate(all="ignore"):
            try:
                return _step(stages, layer, cache, rows, evidence)
            except StepError as refusal:
                if not isinstance(refusal.cause, NonFiniteError):
                    raise
            stages.every = True
            return _step(stages, layer, cache, rows, evidence)
    except MemoryError:
        starved = stages.out_of_memory()
        raise starved from starved.cause


def _step(stages: Stages, layer: Layer, cache: LayerCache, rows: Array, evidence: bool) -> Prepared:
    B, T, D = rows.shape
    config, p = layer.config, cache.length
    H, G, d = config.heads, config.kv_heads, config.head_width

    projected = _project(stages, rows.reshape(B * T, D), layer)
    heads = _split(stages, projected.reshape(B, T, H + 2 * G, d), H, G)
    rotated = _rotate(stages, layer, heads[:, : H + G], H, p)
    query, key, value = rotated[:, :H], rotated[:, H:], heads[:, H + G :]

    past = cache._keys[:, :, :p], cache._values[:, :, :p]
    weights, mixed = attend(stages, query, past, (key, value))
    stages.enter("merged", mixed.size)
    merged = mixed.swapaxes(1, 2).reshape(B * T, H * d)
    if stages.every:
        stages.finite(merged)
    stages.enter("output", B * T * D)
    output = stages.finite(np.matmul(merged, layer.nodes[3].value)).reshape(B, T, D)

    stages.enter("candidate", 2 * key.size)
    try:
        ticket = cache._ticket(key, value)
    except CacheError as cause:
        raise stages.failed(cause) from cause
    found = None
    if evidence:
        found = Evidence(
            query=heads[:, :H].copy(),
            key=heads[:, H : H + G].copy(),
            value=value.copy(),
            rotated_query=query.copy(),
            rotated_key=key.copy(),
            weights=weights,
            heads=mixed,
            merged=merged.reshape(B, T, H * d).copy(),
        )
    return Prepared(StepResult(output, p + T, WorkCounts.of(p, T), found), ticket)


def _project(stages: Stages, rows: Array, layer: Layer) -> Array:
    """Query, key and value rows side by side, [B*T, (H+2G)*d], each product written where it belongs."""
    query, key, value, _ = layer.nodes
    config = layer.config
    first = config.heads * config.head_width
    last = first + config.kv_heads * config.head_width
    stages.enter("query", rows.shape[0] * (2 * last - first))
    projected = stages.allocate((rows.shape[0], 2 * last - first))
    np.matmul(rows, query.value, out=projected[:, :first])
    np.matmul(rows, key.value, out=projected[:, first:last])
    np.matmul(rows, value.value, out=projected[:, last:])
    if stages.every:
        _check_parts(stages, ("query", "key", "value"), np.split(projected, (first, last), axis=1))
    return projected


def _split(stages: Stages, projected: Array, H: int, G: int) -> Array:
    """[B,T,H+2G,d] to heads [B,H+2G,T,d]; head h holds features h*d to h*d + d - 1 of its projection."""
    stages.enter("query_heads", projected.size)
    heads = np.ascontiguousarray(projected.swapaxes(1, 2))
    if stages.every:
        names = ("query_heads", "key_heads", "value_heads")
        _check_parts(stages, names, np.split(heads, (H, H + G), axis=1))
    return heads


def _rotate(stages: Stages, layer: Layer, heads: Array, H: int, start: int) -> Array:
    """Query and key heads [B,H+G,T,d] turned to their positions, `start` being that of the first row."""
    stages.enter("rotated_query", heads.size)
    rotated = layer.rotation.rotate(heads, layer.rotation.turn(start, heads.shape[2]))
    stages.finite(rotated[:, :H])
    if stages.every:
        _check_parts(stages, ("rotated_key",), [rotated[:, H:]])
    return rotated


def _check_parts(stages: Stages, names: tuple[str, ...], parts: list[Array]) -> None:
    for stages.name, part in zip(names, parts, strict=True):
        stages.finite(part)
