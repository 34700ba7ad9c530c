"""Heads: how features are split, which key/value head is read, how heads are merged."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, Work
from conformance.values import LayerConfig, Observation


@killer(
    "gqa_tile",
    fault="GQA-REPEAT-ORDER",
    violates="GQA-ORDER",
    says="query head h reads key/value head h mod G instead of h // (H/G)",
)
class _Tiled(OpenLayerAdapter):
    def grouped(self, config: LayerConfig, rows: Array) -> Array:
        return np.tile(rows, (1, config.heads // config.kv_heads, 1, 1))


@killer(
    "gqa_k_tile_v_repeat",
    fault="GQA-REPEAT-ORDER",
    violates="GQA-ORDER",
    says="keys are read by h mod G, values by h // (H/G)",
)
class _KeysTiled(OpenLayerAdapter):
    def grouped_keys(self, work: Work) -> Array:
        config = work.layer.config
        return np.tile(self.all_keys(work), (1, config.heads // config.kv_heads, 1, 1))


@killer(
    "gqa_stored_repeated",
    fault="GQA-REPEAT-ORDER",
    violates="GQA-STORED-HEADS",
    says="key/value heads are repeated before they are stored: the cache holds H heads instead of G",
)
class _StoredRepeated(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        repeat = cache.config.heads // cache.config.kv_heads
        keys, values = (np.repeat(part, repeat, axis=1) for part in (shown.keys, shown.values))
        return Observation(shown.length, shown.capacity, keys, values, shown.storage)


@killer(
    "gqa_first_only",
    fault="GQA-WRONG-HEAD",
    violates="AGREE-HEADS",
    says="all query heads read key/value head 0",
)
class _FirstHeadOnly(OpenLayerAdapter):
    def grouped(self, config: LayerConfig, rows: Array) -> Array:
        return np.repeat(rows[:, :1], config.heads, axis=1)


@killer(
    "gqa_mean",
    fault="GQA-WRONG-HEAD",
    violates="AGREE-WEIGHTS",
    says="all query heads read the mean of the key heads, values as they should",
)
class _MeanOfKeys(OpenLayerAdapter):
    def grouped_keys(self, work: Work) -> Array:
        return np.repeat(self.all_keys(work).mean(axis=1, keepdims=True), work.layer.config.heads, axis=1)


@killer(
    "gqa_single_head_zero",
    fault="GQA-WRONG-HEAD",
    violates="GQA-MULTI-QUERY",
    says="with one key/value head only the first query head reads it",
)
class _SingleHeadForOne(OpenLayerAdapter):
    def grouped_values(self, work: Work) -> Array:
        made = super().grouped_values(work).copy()
        if work.layer.config.kv_heads == 1:
            made[:, 1:] = 0.0
        return made


@killer(
    "kv_heads_reversed",
    fault="HEAD-ORDER",
    violates="AGREE-PROJECTED",
    says="key/value heads stand in reverse order",
)
class _HeadsReversed(OpenLayerAdapter):
    def key(self, work: Work) -> Array:
        return super().key(work)[:, ::-1]

    def value(self, work: Work) -> Array:
        return super().value(work)[:, ::-1]


@killer(
    "heads_interleaved",
    fault="HEAD-ORDER",
    violates="AGREE-PROJECTED",
    says="the split reads feature i*heads + h instead of h*d + i",
)
class _SplitInterleaved(OpenLayerAdapter):
    def split(self, flat: Array, heads: int) -> Array:
        lanes, count, width = flat.shape
        return flat.reshape(lanes, count, width // heads, heads).transpose(0, 3, 1, 2)


@killer(
    "heads_reshape_no_transpose",
    fault="LAYOUT-STRIDE",
    violates="CHUNK-ROWS",
    says="the split reshapes [B,T,H*d] to [B,H,T,d] without a transpose, which one row hides",
)
class _SplitWithoutTranspose(OpenLayerAdapter):
    def split(self, flat: Array, heads: int) -> Array:
        lanes, count, width = flat.shape
        return flat.reshape(lanes, heads, count, width // heads)


@killer(
    "merge_reversed", fault="HEAD-ORDER", violates="AGREE-MERGED", says="heads are merged in reverse order"
)
class _MergeReversed(OpenLayerAdapter):
    def merged(self, work: Work) -> Array:
        lanes, heads, count, width = work.stages["heads"].shape
        return work.stages["heads"][:, ::-1].transpose(0, 2, 1, 3).reshape(lanes, count, heads * width)


@killer(
    "merge_no_transpose",
    fault="LAYOUT-STRIDE",
    violates="CHUNK-AGREE",
    says="the merge reshapes [B,H,T,d] to [B,T,H*d] without a transpose, which one row hides",
)
class _MergeWithoutTranspose(OpenLayerAdapter):
    def merged(self, work: Work) -> Array:
        lanes, heads, count, width = work.stages["heads"].shape
        return work.stages["heads"].reshape(lanes, count, heads * width)


@killer(
    "merge_interleaved",
    fault="HEAD-ORDER",
    violates="AGREE-MERGED",
    says="the merge is feature-major: feature i*H + h",
)
class _MergeInterleaved(OpenLayerAdapter):
    def merged(self, work: Work) -> Array:
        lanes, heads, count, width = work.stages["heads"].shape
        return work.stages["heads"].transpose(0, 2, 3, 1).reshape(lanes, count, heads * width)
