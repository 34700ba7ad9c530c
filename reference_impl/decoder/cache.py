"""The caches of a whole model: one independent layer cache per block, one binding, one phase, one count."""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.decoder.errors import (
    ConfigurationMismatchError,
    LayerMismatchError,
    ModelMismatchError,
    StaleParametersError,
)
from reference_impl.decoder.model import DecoderModel
from reference_impl.layer import LayerCache


@dataclass(frozen=True)
class DecoderWork:
    """Work since the last reset, as it follows from the lengths; B lanes, L layers, H query heads.

    Tokens count every lane. cache_appends: rows written, once per layer and position. qkv_rows: rows
    projected to queries, keys and values. cached_scores: B*L*H*n for every new length n.
    complete_prefix_scores: B*L*H*n^2 for every call that ends at length n, as if it recomputed its prefix.
    Source: System 3.
    """

    prefill_tokens: int = 0
    decode_tokens: int = 0
    cache_appends: int = 0
    qkv_rows: int = 0
    cached_scores: int = 0
    complete_prefix_scores: int = 0

    @property
    def avoided_scores(self) -> int:
        """Scores that a complete pass per call would have computed and the caches made needless."""
        return self.complete_prefix_scores - self.cached_scores

    def after(
        self, *, batch_size: int, layers: int, heads: int, start: int, rows: int, is_prefill: bool
    ) -> DecoderWork:
        """The counts after one more call that appended `rows` rows at length `start`."""
        stop, tokens, per_pair = start + rows, batch_size * rows, batch_size * layers * heads
        return DecoderWork(
            prefill_tokens=self.prefill_tokens + (tokens if is_prefill else 0),
            decode_tokens=self.decode_tokens + (0 if is_prefill else tokens),
            cache_appends=self.cache_appends + layers * rows,
            qkv_rows=self.qkv_rows + 3 * layers * tokens,
            cached_scores=self.cached_scores + per_pair * sum(range(start + 1, stop + 1)),
            complete_prefix_scores=self.complete_prefix_scores + per_pair * stop * stop,
        )


class DecoderCache:
    """Empty caches for `batch_size` lanes of up to `capacity` rows, bound to a model as it is now.

    The binding is taken once: configuration, parameter nodes, their revisions; nothing refreshes it.
    Raises the refusals of `LayerCache`.
    """

    def __init__(self, model: DecoderModel, batch_size: int, capacity: int) -> None:
        self.layers = tuple(LayerCache(layer, batch_size, capacity) for layer in model.layers)
        self.prefilled = False
        self.work = DecoderWork()
        self._config = model.config
        self._nodes = dict(model.nodes)
        self._revisions = {name: node.revision for name, node in model.nodes.items()}

    @property
    def batch_size(self) -> int:
        """B, the number of lanes."""
        return self.layers[0].batch_size

    @property
    def capacity(self) -> int:
        """C, the rows that each lane has room for."""
        return self.layers[0].capacity

    @property
    def length(self) -> int:
        """n, the rows that each lane holds, the same in every layer."""
        return self.layers[0].length

    def reset(self) -> None:
        """Zero length, phase and work; storage, stored numbers and binding stay."""
        for cache in self.layers:
            cache.reset()
        self.prefilled = False
        self.work = DecoderWork()

    def check_binding(self, model: DecoderModel) -> None:
        """Refuse another model, configuration or revision, in this order; all nodes before any revision."""
        for name in self._nodes | model.nodes:
            if self._nodes.get(name) is not model.nodes.get(name):
                raise ModelMismatchError(name)
        if self._config != model.config:
            raise ConfigurationMismatchError(self._config, model.config)
        for index, (name, revision) in enumerate(self._revisions.items()):
            if revision != model.nodes[name].revision:
                raise StaleParametersError(index, name, revision, model.nodes[name].revision)

    def check_layers(self) -> None:
        """Refuse caches whose lengths, batch sizes or capacities are not all equal."""
        for figure in ("length", "batch_size", "capacity"):
            figures = [int(getattr(cache, figure)) for cache in self.layers]
            for layer, found in enumerate(figures):
                if found != figures[0]:
                    raise LayerMismatchError(layer, figure, figures[0], found)
