"""System 1 on paged storage: a layer's cache in blocks, its checked append, attention block by block."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from reference_impl.layer import Evidence, Layer, LayerCache, StepResult, WorkCounts, check_append
from reference_impl.layer.binding import Binding
from reference_impl.layer.memory import Array
from reference_impl.layer.stages import Stages
from reference_impl.layer.step import RowsPerAppend
from reference_impl.layer_errors import CapacityExceedsPositionsError
from reference_impl.paged.cache import PagedCache
from reference_impl.paged.pool import BlockPool
from reference_impl.row_checks import require_size


class PagedLayerCache(PagedCache):
    """The paged cache of one layer, bound to it as a contiguous `LayerCache` is.

    pool: blocks shared with other caches of layers of the same geometry; by default a pool of its own that
    holds `sequences` caches of this size, of which forks make use.
    Raises, in this order: ZeroBatchSizeError, ZeroCapacityError, CapacityExceedsPositionsError, then the
    refusals of `BlockPool`.
    """

    def __init__(
        self,
        layer: Layer,
        batch_size: int,
        capacity: int,
        *,
        block_size: int = 16,
        sequences: int = 1,
        seed: int = 0,
        pool: BlockPool | None = None,
    ) -> None:
        config = layer.config
        require_size(batch_size, capacity)
        if capacity > config.rope.max_positions:
            raise CapacityExceedsPositionsError(capacity, config.rope.max_positions)
        if pool is None:
            pool = BlockPool(
                blocks=sequences * batch_size * -(-capacity // max(block_size, 1)),
                block_size=block_size,
                kv_heads=config.kv_heads,
                key_width=config.head_width,
                value_width=config.head_width,
                seed=seed,
            )
        super().__init__(pool, batch_size, capacity)
        self.binding = Binding.of(layer)


def append(
    layer: Layer,
    cache: PagedLayerCache,
    rows: ArrayLike,
    *,
    rows_per_append: RowsPerAppend = "one",
    evidence: bool = True,
) -> StepResult:
    """Append rows [B,T,D] at positions n to n + T - 1, as `reference_impl.layer.append` does.

    Refusals are those of the contiguous layer, with BlocksExhaustedError after CacheFullError; every one of
    them leaves length, tables, pool and layer as they were.
    """
    given = np.asarray(rows, dtype=np.float64)
    # The check reads batch size, binding, length and capacity, which both kinds of cache have.
    check_append(layer, cast(LayerCache, cache), given, rows_per_append)
    cache.require_room(given.shape[1])
    with np.errstate(all="ignore"):
        result, key, value = _calculate(layer, cache, given, evidence=evidence)
    cache.append(key, value)
    return result


def attend_blocks(
    stages: Stages, cache: PagedCache, query: Array, key: Array, value: Array
) -> tuple[Array, Array]:
    """Weights [B,H,T,n] and head outputs [B,H,T,dv] of new rows over the cache and over themselves.

    query [B,H,T,dk], rotated; key [B,G,T,dk] and value [B,G,T,dv] of the new rows; n = p + T. Blocks are read
    where they lie, one at a time; nothing of the history is gathered.
    """
    B, H, T, width = query.shape
    G, p = key.shape[1], cache.length
    grouped = query.reshape(B, G, H // G * T, width)
    stages.enter("score", stages.count(B, H, T, p + T))
    scores = stages.allocate((B, G, H // G * T, p + T))
    scores[..., p:] = grouped @ key.swapaxes(-1, -2)
    for lane in range(B):
        for span, block_keys, _ in cache.blocks(lane):
            scores[lane, ..., span] = grouped[lane] @ block_keys.swapaxes(-1, -2)
    by_query = scores.reshape(B, G, H // G, T, p + T)
    by_query /= np.sqrt(width)
    visible = np.tri(T, p + T, k=p, dtype=bool)
    # What no query sees may be anything, and must neither be refused nor weigh.
    stages.finite(np.where(visible, by_query, 0.0))
    by_query[...] = np.where(visible, by_query, -np.inf)

    stages.enter("softmax", scores.size)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = stages.finite(weights / weights.sum(axis=-1, keepdims=True))

    stages.enter("heads", stages.count(B, H, T, value.shape[3]))
    mixed = weights[..., p:] @ value
    for lane in range(B):
        for span, _, block_values in cache.blocks(lane):
            mixed[lane] += weights[lane, ..., span] @ block_values
    return weights.reshape(B, H, T, p + T), stages.finite(mixed.reshape(B, H, T, -1))


def _calculate(
    layer: Layer, cache: PagedLayerCache, rows: Array, *, evidence: bool
) -> tuple[StepResult, Array, Array]:
    """The result of a step, and the key and value rows that it adds."""
    config, stages, p = layer.config, Stages(), cache.length
    B, T, _ = rows.shape
    query, key, value = (
        _heads(stages, name, rows, node.value, heads)
        for name, node, heads in zip(
            ("query", "key", "value"),
            layer.nodes[:3],
            (config.heads, config.kv_heads, config.kv_heads),
            strict=True,
        )
    )
    turn = layer.rotation.turn(p, T)
    stages.enter("rotated_query", query.size)
    rotated_query = stages.finite(layer.rotation.rotate(query, turn))
    stages.enter("rotated_key", key.size)
    rotated_key = stages.finite(layer.rotation.rotate(key, turn))
    weights, mixed = attend_blocks(stages, cache, rotated_query, rotated_key, value)
    merged = mixed.swapaxes(1, 2).copy().reshape(B, T, -1)
    stages.enter("output", rows.size)
    output = stages.finite(merged @ layer.nodes[3].value)
    # The cache copies the rows that it is given, so the evidence shares nothing with it.
    found = Evidence(query, key, value, rotated_query, rotated_key, weights, mixed, merged)
    result = StepResult(output, p + T, WorkCounts.of(p, T), found if evidence else None)
    return result, rotated_key, value


def _heads(stages: Stages, name: str, rows: Array, weight: Array, heads: int) -> Array:
    """Projected rows [B,heads,T,d], head h holding features h*d to h*d + d - 1."""
    B, T, _ = rows.shape
    stages.enter(name, B * T * weight.shape[1])
    projected = stages.finite(rows @ weight)
    return np.ascontiguousarray(projected.reshape(B, T, heads, -1).swapaxes(1, 2))
