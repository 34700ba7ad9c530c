"""The embedded NumPy layer, and its attention alone, behind the adapters of their levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Literal

import numpy as np

import reference_impl.layer as reference
from conformance.adapter import Declaration
from conformance.rejections import KINDS, Rejected
from conformance.values import (
    PARAMETERS,
    AttentionConfig,
    LayerConfig,
    LayerParameters,
    Observation,
    Step,
    Work,
)
from reference_impl import attention, cache_edits, layer_errors

COMMON = frozenset({"gqa", "poison", "evidence", "storage", "snapshot"})
LAYER = COMMON | {"full_prefix", "update_parameters", "rewire", "work"}
WORDS = {
    "index": "index", "value": "value", "parameter": "parameter",
    "expected": "expected", "actual": "found", "cache": "expected", "layer": "found",
    "max_positions": "expected", "capacity": "found", "batch_size": "found", "tokens": "found",
    "factors": "found", "elements": "found",
}  # fmt: skip
"""What a field of the reference's errors is called in a `Rejected`."""
EDITS = frozenset({"truncate", "fork", "reorder"})


class NumpyLayerAdapter:
    """A `LayerAdapter` over `reference_impl.layer`. It translates words and refusals and adds nothing.

    rows_per_append `"one"` is System 1 to the letter; `"any"` takes chunks and offers rollback, fork and
    reorder besides.
    """

    def __init__(self, rows_per_append: Literal["one", "any"] = "one") -> None:
        chunks = rows_per_append == "any"
        self.declaration = Declaration(
            name="numpy-chunks" if chunks else "numpy",
            version=f"NumPy {np.__version__}",
            levels=("layer",),
            features=LAYER | EDITS | {"chunks"} if chunks else LAYER,
            rows_per_append=rows_per_append,
        )

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> reference.Layer:
        """A layer of new parameter nodes, each with a copy of the given weights."""
        weights = {name: getattr(parameters, name) for name in PARAMETERS}
        return reference.Layer.build(_config(config), **weights)

    def build_cache(self, layer: reference.Layer, batch_size: int, capacity: int) -> reference.LayerCache:
        """An empty cache bound to the layer."""
        with rejecting():
            return reference.LayerCache(layer, batch_size, capacity)

    def append(self, layer: reference.Layer, cache: reference.LayerCache, rows: Any) -> Step:
        """Append rows [B,T,D]; every field of the step is given."""
        with rejecting():
            return step_of(
                reference.append(layer, cache, rows, rows_per_append=self.declaration.rows_per_append)
            )

    def observe(self, cache: reference.LayerCache) -> Observation:
        """Views of the logical rows and of both buffers; the buffers are writable, so that reuse shows."""
        return _observation(cache)

    def reset(self, cache: reference.LayerCache) -> None:
        """Length 0; nothing else changes."""
        cache.reset()

    def full_prefix(self, layer: reference.Layer, rows: Any) -> Any:
        """The layer's own uncached pass, [B,T,D] to [B,T,D]."""
        with rejecting():
            return layer.full_prefix(rows)

    def update_parameters(self, layer: reference.Layer, values: Mapping[str, Any]) -> None:
        """New numbers in place; the revision of each named node rises by one."""
        layer.update(dict(values))

    def rewire(
        self, layer: reference.Layer, *, config: LayerConfig | None = None, fresh: Iterable[str] = ()
    ) -> reference.Layer:
        """A layer of the same nodes, but for those named in `fresh`."""
        return layer.rewired(config=None if config is None else _config(config), fresh=fresh)

    def poison(self, cache: reference.LayerCache, value: float) -> None:
        """Fill every slot at or after the length, in both buffers."""
        _poison(cache, value)

    def snapshot(self, cache: reference.LayerCache) -> tuple[Any, Any]:
        """The copies that the cache hands to its users."""
        with rejecting():
            return cache.snapshot()

    def truncate(self, cache: reference.LayerCache, length: int) -> None:
        """Keep the first `length` rows."""
        with rejecting():
            cache_edits.truncate(cache, length)

    def fork(self, cache: reference.LayerCache) -> reference.LayerCache:
        """A cache with the same rows in storage of its own."""
        with rejecting():
            return cache_edits.fork(cache)

    def reorder(self, cache: reference.LayerCache, lanes: Sequence[int]) -> None:
        """Lane b takes what lane `lanes[b]` held."""
        with rejecting():
            cache_edits.reorder(cache, lanes)


class NumpyAttentionAdapter:
    """An `AttentionAdapter` over `reference_impl.attention`."""

    def __init__(self) -> None:
        self.declaration = Declaration(
            name="numpy-attention",
            version=f"NumPy {np.__version__}",
            levels=("attention",),
            features=COMMON | {"chunks"},
            rows_per_append="any",
        )

    def build_cache(
        self, config: AttentionConfig, batch_size: int, capacity: int
    ) -> attention.AttentionCache:
        """An empty cache."""
        shape = attention.AttentionShape(config.heads, config.kv_heads, config.key_width, config.value_width)
        with rejecting():
            return attention.AttentionCache(shape, batch_size, capacity)

    def append(self, cache: attention.AttentionCache, query: Any, key: Any, value: Any) -> Step:
        """Attend over past and new rows, and keep the new ones."""
        with rejecting():
            result = attention.append(cache, query, key, value)
        return Step(output=result.output, weights=result.weights, length=result.length)

    def observe(self, cache: attention.AttentionCache) -> Observation:
        """Views of the logical rows and of both buffers; the buffers are writable."""
        return _observation(cache)

    def reset(self, cache: attention.AttentionCache) -> None:
        """Length 0; nothing else changes."""
        cache.reset()

    def poison(self, cache: attention.AttentionCache, value: float) -> None:
        """Fill every slot at or after the length, in both buffers."""
        _poison(cache, value)

    def snapshot(self, cache: attention.AttentionCache) -> tuple[Any, Any]:
        """The copies that the cache hands to its users."""
        return cache.snapshot()


def numpy() -> NumpyLayerAdapter:
    """The built-in adapter `numpy`: one row a call."""
    return NumpyLayerAdapter("one")


def numpy_chunks() -> NumpyLayerAdapter:
    """The built-in adapter `numpy-chunks`: any number of rows a call."""
    return NumpyLayerAdapter("any")


def numpy_attention() -> NumpyAttentionAdapter:
    """The built-in adapter `numpy-attention`."""
    return NumpyAttentionAdapter()


def step_of(result: reference.StepResult) -> Step:
    """The step of a result that carries evidence."""
    evidence = result.evidence
    if evidence is None:
        raise ValueError("the result carries no evidence; append with evidence=True")
    return Step(
        output=result.output,
        query=evidence.query,
        key=evidence.key,
        value=evidence.value,
        rotated_query=evidence.rotated_query,
        rotated_key=evidence.rotated_key,
        weights=evidence.weights,
        heads=evidence.heads,
        merged=evidence.merged,
        length=result.length,
        work=Work(*result.work),
    )


@contextmanager
def rejecting(carried: Callable[[layer_errors.CacheError], dict[str, Any]] | None = None) -> Iterator[None]:
    """Turn a typed refusal of the reference into a `Rejected` that carries the same.

    carried: what a refusal tells in the words of a `Rejected`; None for those of layers, attention, stores
    and paged caches. A refusal of a kind that the contract does not know passes as it is: to the kit it is
    an error.
    """
    try:
        yield
    except layer_errors.CacheError as refusal:
        if refusal.kind not in KINDS:
            raise
        raise Rejected(refusal.kind, str(refusal), **(carried or _carried)(refusal)) from refusal


def _carried(refusal: layer_errors.CacheError) -> dict[str, Any]:
    if isinstance(refusal, layer_errors.StepError):
        return {**_carried(refusal.cause), "stage": refusal.stage}
    if isinstance(refusal, layer_errors.CacheFullError):
        return {"expected": refusal.capacity}
    if isinstance(refusal, layer_errors.InputRankError):
        return {"expected": 4 if isinstance(refusal, attention.HeadsRankError) else 3, "found": refusal.rank}
    if isinstance(refusal, layer_errors.SingleTokenRequiredError):
        return {"expected": 1, "found": refusal.tokens}
    return {WORDS[part.name]: getattr(refusal, part.name) for part in fields(refusal) if part.name in WORDS}


def _config(config: LayerConfig) -> reference.LayerConfig:
    rope = reference.RopeConfig(config.rope.base, config.rope.pairing, config.rope.max_positions)
    return reference.LayerConfig(config.model_width, config.heads, config.kv_heads, config.head_width, rope)


def _observation(cache: reference.LayerCache | attention.AttentionCache) -> Observation:
    # The private buffers: the public views of both caches are read-only, which would hide from the kit
    # whether a stored row is read again.
    keys, values = cache._keys, cache._values
    return Observation(
        cache.length,
        cache.capacity,
        keys[:, :, : cache.length],
        values[:, :, : cache.length],
        (keys, values),
    )


def _poison(cache: reference.LayerCache | attention.AttentionCache, value: float) -> None:
    for buffer in (cache._keys, cache._values):
        buffer[:, :, cache.length :] = value
