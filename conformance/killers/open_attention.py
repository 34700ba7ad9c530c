"""The open layer without its projections: queries, keys and values are handed in, rotated by the caller.

A fault of the open layer that lies between the rows and the mixed heads is planted here by putting its class
in front: `class X(LayerFault, OpenAttentionAdapter)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.killers.open_checks import batch, room, tokens
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.values import AttentionConfig, LayerConfig, RopeConfig, Step

FEATURES = frozenset({"chunks", "gqa", "truncate", "fork", "reorder", "poison", "storage", "snapshot"})


@dataclass(frozen=True)
class GivenConfig(LayerConfig):
    """The geometry of given heads; values may be of another width than keys."""

    value_width: int


class Given:
    """Heads that were handed in, in the place of a parameter: the caller's own array."""

    revision = 0

    def __init__(self, value: Array) -> None:
        self.value = value


class OpenAttentionAdapter(OpenLayerAdapter):
    """Level attention with every feature that the level knows."""

    name = "open-attention"
    checks = (batch, tokens, room)

    @property
    def declaration(self) -> Declaration:
        """As the class stands."""
        return Declaration(
            name=self.name,
            levels=("attention",),
            features=FEATURES - ({"chunks"} if self.one_row else set()),
            rows_per_append="one" if self.one_row else "any",
            precision=self.precision,
            deterministic=self.deterministic,
        )

    def build_cache(self, config: AttentionConfig, batch_size: int, capacity: int) -> OpenCache:  # type: ignore[override]
        """An empty cache."""
        rope = RopeConfig(1.0, "adjacent", capacity)
        width = config.heads * config.value_width
        geometry = GivenConfig(
            width, config.heads, config.kv_heads, config.key_width, rope, config.value_width
        )
        return super().build_cache(OpenLayer(geometry, {}), batch_size, capacity)

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        """Keys before values, +0.0 everywhere."""
        lanes = (batch_size, config.kv_heads, capacity)
        value_width = config.value_width if isinstance(config, GivenConfig) else config.head_width
        return (
            np.zeros((*lanes, config.head_width), self.storage_dtype),
            np.zeros((*lanes, value_width), self.storage_dtype),
        )

    def append(self, cache: OpenCache, query: Array, key: Array, value: Array) -> Step:  # type: ignore[override]
        """Check, compute, commit. The checks see the keys as rows [B,T,G,dk]."""
        given: dict[str, Any] = {"query": Given(query), "key": Given(key), "value": Given(value)}
        return self.perform(OpenLayer(cache.config, given), cache, key.swapaxes(1, 2))

    def query(self, work: Work) -> Array:
        """As handed in."""
        return work.layer.nodes["query"].value

    def key(self, work: Work) -> Array:
        """As handed in."""
        return work.layer.nodes["key"].value

    def value(self, work: Work) -> Array:
        """As handed in."""
        return work.layer.nodes["value"].value

    def rotated_query(self, work: Work) -> Array:
        """Queries arrive rotated."""
        return work.stages["query"]

    def rotated_key(self, work: Work) -> Array:
        """Keys arrive rotated."""
        return work.stages["key"]

    def output(self, work: Work) -> Array:
        """The mixed heads."""
        return work.stages["heads"]

    def step(self, work: Work) -> Step:
        """The output alone, a copy."""
        return Step(work.stages["output"].copy(), length=work.cache.length)
