"""A clean layer cache whose every stage is a method of its own.

A killer is a subclass that overrides one of them. The clean class passes everything that it declares; it is
one of the controls. It favours one idea a method over speed.
"""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import numpy as np

from conformance.adapter import FEATURES, Declaration, Precision
from conformance.killers.open_checks import CHECKS, refuse_construction
from conformance.killers.open_state import Array, Node, OpenCache, OpenLayer, Work, frequencies, turns
from conformance.rejections import Rejected
from conformance.values import PARAMETERS, LayerConfig, LayerParameters, Observation, Step
from conformance.values import Work as WorkCounts

STAGES = (
    "query",
    "key",
    "value",
    "rotated_query",
    "rotated_key",
    "scores",
    "weights",
    "heads",
    "merged",
    "output",
)


class OpenLayerAdapter:
    """Level layer with every feature but `paged`. `one_row` refuses appends of several rows."""

    name = "open-layer"
    one_row = False
    storage_dtype: Any = np.float64
    checks: tuple[Any, ...] = CHECKS
    dropped: tuple[str, ...] = ()
    finite_stages: tuple[str, ...] = STAGES
    precision = Precision()
    deterministic = True

    @property
    def declaration(self) -> Declaration:
        """Everything, as the class stands."""
        return Declaration(
            name=self.name,
            levels=("layer",),
            features=frozenset(FEATURES) - {"paged"} - ({"chunks"} if self.one_row else set()),
            rows_per_append="one" if self.one_row else "any",
            precision=self.precision,
            deterministic=self.deterministic,
        )

    # -- building ---------------------------------------------------------------------------------------

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> OpenLayer:
        """A layer with fresh nodes."""
        return OpenLayer(config, {name: Node(getattr(parameters, name)) for name in PARAMETERS})

    def build_cache(self, layer: OpenLayer, batch_size: int, capacity: int) -> OpenCache:
        """An empty cache bound to the nodes of the layer and to their revisions."""
        self.check_construction(layer.config, batch_size, capacity)
        keys, values = self.allocate(layer.config, batch_size, capacity)
        cache = OpenCache(layer.config, batch_size, capacity, keys, values, {}, {})
        self.bind(cache, layer)
        return cache

    def check_construction(self, config: LayerConfig, batch_size: int, capacity: int) -> None:
        """Refuse what cannot be built."""
        refuse_construction(config, batch_size, capacity)

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        """Keys before values, +0.0 everywhere."""
        shape = (batch_size, config.kv_heads, capacity, config.head_width)
        try:
            return np.zeros(shape, self.storage_dtype), np.zeros(shape, self.storage_dtype)
        except (MemoryError, ValueError) as error:
            raise Rejected("allocation_failed", f"no memory for {np.prod(shape)} elements") from error

    def bind(self, cache: OpenCache, layer: OpenLayer) -> None:
        """Remember identities and revisions."""
        cache.nodes = dict(layer.nodes)
        cache.revisions = {name: node.revision for name, node in layer.nodes.items()}

    # -- one append -------------------------------------------------------------------------------------

    def append(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        """Append rows [B,T,D]."""
        return self.perform(layer, cache, rows)

    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        """Check, compute, commit."""
        self.admit(layer, cache, rows)
        work = self.compute(layer, cache, rows)
        self.commit(work)
        return self.step(work)

    def admit(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> None:
        """The checks of the call, in order, but for the `dropped` ones."""
        for check in self.checks:
            if check.__name__ not in self.dropped:
                check(self, layer, cache, rows)

    def compute(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Work:
        """Everything but the write."""
        work = Work(layer, cache, rows, self.held(cache), rows.shape[1])
        self.fill(work, STAGES)
        return work

    def fill(self, work: Work, stages: tuple[str, ...]) -> None:
        """Stage by stage, each checked before the next."""
        for stage in stages:
            work.stages[stage] = getattr(self, stage)(work)
            if stage in self.finite_stages:
                self.check_finite(stage, work)

    def held(self, cache: OpenCache) -> int:
        """Rows held before this call."""
        return cache.length

    def check_finite(self, stage: str, work: Work) -> None:
        """Refuse the first number of a stage that is not finite."""
        seen = work.stages[stage]
        # The sum of finite numbers is finite, or has overflowed: then each is looked at.
        if isfinite(np.add.reduce(seen, axis=None)) or np.isfinite(seen).all():
            return
        if stage != "scores" or not np.isfinite(np.where(self.visible(work), seen, 0.0)).all():
            raise Rejected("non_finite", f"{stage} is not finite", stage=stage)

    def project(self, work: Work, name: str) -> Array:
        """rows @ W."""
        return work.rows @ work.layer.nodes[name].value

    def split(self, flat: Array, heads: int) -> Array:
        """[B,T,h*d] to [B,h,T,d]."""
        lanes, count, width = flat.shape
        return flat.reshape(lanes, count, heads, width // heads).transpose(0, 2, 1, 3)

    def query(self, work: Work) -> Array:
        """Projected query heads."""
        return self.split(self.project(work, "query"), work.layer.config.heads)

    def key(self, work: Work) -> Array:
        """Projected key heads."""
        return self.split(self.project(work, "key"), work.layer.config.kv_heads)

    def value(self, work: Work) -> Array:
        """Projected value heads."""
        return self.split(self.project(work, "value"), work.layer.config.kv_heads)

    def positions(self, work: Work) -> Array:
        """Absolute positions of the new rows, [T] or [B,1,T]."""
        return work.start + np.arange(work.count)

    def query_positions(self, work: Work) -> Array:
        """Where queries are rotated."""
        return self.positions(work)

    def key_positions(self, work: Work) -> Array:
        """Where keys are rotated."""
        return self.positions(work)

    def frequencies(self, config: LayerConfig) -> Array:
        """One a pair."""
        return frequencies(config.rope.base, config.head_width)

    def turn(self, config: LayerConfig, positions: Array) -> tuple[Array, Array]:
        """Cosine and sine [..., T, d/2] of the angles."""
        return turns(np.asarray(positions)[..., None], self.frequencies(config))

    def pairing(self, config: LayerConfig) -> str:
        """Which features make a pair."""
        return config.rope.pairing

    def rotate(self, config: LayerConfig, heads: Array, positions: Array) -> Array:
        """Heads [B,h,T,d] turned at their positions."""
        cosine, sine = self.turn(config, positions)
        half = config.head_width // 2
        adjacent = self.pairing(config) == "adjacent"
        left, right = (
            (slice(0, None, 2), slice(1, None, 2)) if adjacent else (slice(0, half), slice(half, None))
        )
        first, second = heads[..., left], heads[..., right]
        turned = np.empty_like(heads)
        np.subtract(first * cosine, second * sine, out=turned[..., left])
        np.add(first * sine, second * cosine, out=turned[..., right])
        return turned

    def rotated_query(self, work: Work) -> Array:
        """Queries turned."""
        return self.rotate(work.layer.config, work.stages["query"], self.query_positions(work))

    def rotated_key(self, work: Work) -> Array:
        """Keys turned."""
        return self.rotate(work.layer.config, work.stages["key"], self.key_positions(work))

    def retained_keys(self, work: Work) -> Array:
        """Key rows that are read from storage."""
        return work.cache.keys[:, :, : work.start]

    def retained_values(self, work: Work) -> Array:
        """Value rows that are read from storage."""
        return work.cache.values[:, :, : work.start]

    def all_keys(self, work: Work) -> Array:
        """Retained rows, then new ones."""
        return np.concatenate([self.retained_keys(work), work.stages["rotated_key"]], axis=2)

    def all_values(self, work: Work) -> Array:
        """Retained rows, then new ones."""
        return np.concatenate([self.retained_values(work), work.stages["value"]], axis=2)

    def grouped(self, config: LayerConfig, rows: Array) -> Array:
        """Key/value heads as the query heads read them: [B,H,n,d]."""
        group = config.heads // config.kv_heads
        return rows if group == 1 else np.repeat(rows, group, axis=1)

    def grouped_keys(self, work: Work) -> Array:
        """Keys per query head."""
        return self.grouped(work.layer.config, self.all_keys(work))

    def grouped_values(self, work: Work) -> Array:
        """Values per query head."""
        return self.grouped(work.layer.config, self.all_values(work))

    def scale(self, work: Work) -> float:
        """What scores are multiplied with."""
        return 1.0 / sqrt(work.layer.config.head_width)

    def scores(self, work: Work) -> Array:
        """[B,H,T,n], also where they are not visible."""
        keys = self.grouped_keys(work)
        return work.stages["rotated_query"] @ keys.swapaxes(-1, -2) * self.scale(work)

    def visible(self, work: Work) -> Array:
        """[T,n]: which row a query may see."""
        row, column = np.arange(work.count)[:, None], np.arange(work.stages["scores"].shape[-1])
        return column <= row + work.start

    def masked(self, work: Work) -> Array:
        """Scores, minus infinity where a query may not see."""
        return np.where(self.visible(work), work.stages["scores"], -np.inf)

    def exponentials(self, work: Work) -> Array:
        """Before they are normalised: 1 at the largest score of a query."""
        masked = self.masked(work)
        grown: Array = np.exp(masked - masked.max(axis=-1, keepdims=True))
        return grown

    def weights(self, work: Work) -> Array:
        """Softmax over the visible rows."""
        grown = self.exponentials(work)
        return grown / grown.sum(axis=-1, keepdims=True)

    def heads(self, work: Work) -> Array:
        """Mixed values [B,H,T,d]."""
        return work.stages["weights"] @ self.grouped_values(work)

    def merged(self, work: Work) -> Array:
        """[B,H,T,d] to [B,T,H*d]."""
        lanes, heads, count, width = work.stages["heads"].shape
        return work.stages["heads"].transpose(0, 2, 1, 3).reshape(lanes, count, heads * width)

    def output(self, work: Work) -> Array:
        """merged @ W_O."""
        return work.stages["merged"] @ work.layer.nodes["output"].value

    # -- writing ----------------------------------------------------------------------------------------

    def commit(self, work: Work) -> None:
        """Write the rows, then raise the length."""
        self.write(work)
        self.advance(work)

    def slot(self, work: Work) -> int:
        """Where the first new row goes."""
        return work.start

    def write(self, work: Work) -> None:
        """The new rows into their slots."""
        at = self.slot(work)
        work.cache.keys[:, :, at : at + work.count] = self.stored_keys(work)
        work.cache.values[:, :, at : at + work.count] = self.stored_values(work)

    def stored_keys(self, work: Work) -> Array:
        """What is written as keys."""
        return work.stages["rotated_key"]

    def stored_values(self, work: Work) -> Array:
        """What is written as values."""
        return work.stages["value"]

    def advance(self, work: Work) -> None:
        """Raise the length."""
        work.cache.length = work.start + work.count
        work.cache.high_water = max(work.cache.high_water, work.cache.length)

    def step(self, work: Work) -> Step:
        """What is handed out: copies."""
        names = ("query", "key", "value", "rotated_query", "rotated_key", "weights", "heads", "merged")
        return Step(
            work.stages["output"].copy(),
            **{name: work.stages[name].copy() for name in names},
            length=work.cache.length,
            work=self.counts(work),
        )

    def counts(self, work: Work) -> WorkCounts:
        """Declared work."""
        return WorkCounts(work.start, work.start + work.count, work.count, work.start)

    # -- everything else --------------------------------------------------------------------------------

    def observe(self, cache: OpenCache) -> Observation:
        """Views; the player copies."""
        seen = slice(0, cache.length)
        return Observation(
            cache.length, cache.capacity, cache.keys[:, :, seen], cache.values[:, :, seen],
            (cache.keys, cache.values),
        )  # fmt: skip

    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        """Fresh copies of the logical rows."""
        return cache.keys[:, :, : cache.length].copy(), cache.values[:, :, : cache.length].copy()

    def reset(self, cache: OpenCache) -> None:
        """Length 0 and nothing else."""
        cache.length = 0

    def poison(self, cache: OpenCache, value: float) -> None:
        """Fill what lies at or after the length."""
        cache.keys[:, :, cache.length :] = value
        cache.values[:, :, cache.length :] = value

    def full_prefix(self, layer: OpenLayer, rows: Array) -> Array:
        """The uncached pass: a fresh cache that takes everything at once."""
        lanes, count, _ = rows.shape
        cache = OpenLayerAdapter.build_cache(self, layer, lanes, count)
        return OpenLayerAdapter.compute(_CLEAN, layer, cache, rows).stages["output"]

    def update_parameters(self, layer: OpenLayer, parameters: dict[str, Array]) -> None:
        """In place; every named revision rises by one."""
        for name, value in parameters.items():
            layer.nodes[name].value[...] = value
            layer.nodes[name].revision += 1

    def rewire(
        self, layer: OpenLayer, *, config: LayerConfig | None = None, fresh: tuple[str, ...] = ()
    ) -> OpenLayer:
        """A layer that shares every node but the fresh ones."""
        nodes = {name: Node(node.value) if name in fresh else node for name, node in layer.nodes.items()}
        return OpenLayer(config or layer.config, nodes)

    def truncate(self, cache: OpenCache, length: int) -> None:
        """Keep the first `length` rows."""
        if not 0 <= length <= cache.length:
            raise Rejected(
                "invalid_length", f"{length} of {cache.length} rows", expected=cache.length, found=length
            )
        cache.length = length

    def fork(self, cache: OpenCache) -> OpenCache:
        """Another cache with the same rows in buffers of its own."""
        return OpenCache(
            cache.config, cache.lanes, cache.capacity, cache.keys.copy(), cache.values.copy(),
            dict(cache.nodes), dict(cache.revisions), cache.length, cache.counter, cache.high_water,
        )  # fmt: skip

    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        """Lane i takes what lane lanes[i] held."""
        if any(not 0 <= lane < cache.lanes for lane in lanes) or len(lanes) != cache.lanes:
            raise Rejected("lane_out_of_range", f"lanes {lanes} of {cache.lanes}")
        cache.keys[...] = cache.keys[lanes]
        cache.values[...] = cache.values[lanes]


_CLEAN = OpenLayerAdapter()
