"""The exact layer behind an adapter: 50 digits, the whole prefix from the formulas at every append.

It keeps the rows that it was given and computes their keys and values anew each time, so it is a reference
for values and no model of a cache's storage: it declares none. Nothing here is shared with the NumPy layers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.rejections import Rejected
from conformance.values import PARAMETERS, LayerConfig, LayerParameters, Observation, Step
from reference_impl.exact import ExactLayer, nearest_float64

Array = NDArray[np.float64]

_MOST_ELEMENTS = 2**63 - 1

_STAGES = (
    "query", "key", "value", "rotated_query", "rotated_key", "scores", "weights", "heads", "merged", "output",
)
"""Stages of a step in the order in which they are computed, and so refused."""
_TRIANGLES = ("scores", "weights")


@dataclass(eq=False)
class _Node:
    """One parameter: the object is its identity; the revision rises with every update."""

    value: Array
    revision: int = 0


@dataclass(eq=False)
class _Layer:
    """Four parameter nodes under a configuration; the exact layer is made anew when a revision has risen."""

    config: LayerConfig
    nodes: dict[str, _Node]
    made: tuple[tuple[int, ...], ExactLayer] | None = None

    def revisions(self) -> tuple[int, ...]:
        return tuple(self.nodes[name].revision for name in PARAMETERS)

    def exact(self) -> ExactLayer:
        if self.made is None or self.made[0] != self.revisions():
            weights = LayerParameters(**{name: self.nodes[name].value for name in PARAMETERS})
            self.made = self.revisions(), ExactLayer(self.config, weights)
        return self.made[1]


@dataclass(eq=False)
class _Cache:
    """What the cache was built for, the rows [B,n,D] it has seen, their keys and values [B,G,n,d]."""

    config: LayerConfig
    nodes: dict[str, _Node]
    revisions: tuple[int, ...]
    batch_size: int
    capacity: int
    rows: Array
    keys: Array
    values: Array

    @property
    def length(self) -> int:
        return int(self.rows.shape[1])


class ExactLayerAdapter:
    """A `LayerAdapter` over the mpmath reference; every number handed out is correctly rounded to float64."""

    def __init__(self) -> None:
        self.declaration = Declaration(
            name="exact",
            version=f"mpmath {mpmath.__version__}",
            levels=("layer",),
            features=frozenset({"chunks", "gqa", "evidence", "update_parameters", "rewire"}),
            rows_per_append="any",
        )

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> _Layer:
        """A layer of new parameter nodes. Raises ValueError where weights do not fit or are not finite."""
        nodes = {name: _Node(_weights(name, getattr(parameters, name))) for name in PARAMETERS}
        layer = _Layer(config, nodes)
        layer.exact()
        return layer

    def build_cache(self, layer: _Layer, batch_size: int, capacity: int) -> _Cache:
        """An empty cache. Rejected by the first of zero batch, zero capacity, positions, element count."""
        config = layer.config
        if batch_size == 0:
            raise Rejected("zero_batch_size", "a cache needs at least one lane")
        if capacity == 0:
            raise Rejected("zero_capacity", "a cache needs room for at least one row")
        if capacity > config.rope.max_positions:
            raise Rejected(
                "capacity_exceeds_positions",
                f"capacity {capacity}, but {config.rope.max_positions} positions",
                expected=config.rope.max_positions, found=capacity,
            )
        if batch_size * config.kv_heads * capacity * config.head_width > _MOST_ELEMENTS:
            raise Rejected("element_count_overflow", f"more than {_MOST_ELEMENTS} elements")
        heads = np.empty((batch_size, config.kv_heads, 0, config.head_width))
        rows = np.empty((batch_size, 0, config.model_width))
        return _Cache(config, dict(layer.nodes), layer.revisions(), batch_size, capacity, rows, heads, heads)

    def append(self, layer: _Layer, cache: _Cache, rows: Any) -> Step:
        """Append rows [B,T,D]; all of the step but its work is given. Rejected before anything changes."""
        given = np.asarray(rows, dtype=np.float64)
        _require_input(layer, cache, given)
        _require_geometry(layer, cache)
        _require_binding(layer, cache)
        _require_room(cache, given)
        _require_finite("input", given)
        start, joined = cache.length, np.concatenate([cache.rows, given], axis=1)
        found = layer.exact().run(joined, first=start)
        stages = {
            name: _rounded(getattr(found, name), joined.shape[1] if name in _TRIANGLES else None)
            for name in _STAGES
        }
        for name in _STAGES:
            _require_finite(name, stages[name])
        cache.rows, cache.keys, cache.values = joined, stages["rotated_key"], stages["value"]
        return Step(
            output=stages["output"],
            query=stages["query"],
            key=stages["key"][:, :, start:].copy(),
            value=stages["value"][:, :, start:].copy(),
            rotated_query=stages["rotated_query"],
            rotated_key=stages["rotated_key"][:, :, start:].copy(),
            weights=stages["weights"],
            heads=stages["heads"],
            merged=stages["merged"],
            length=cache.length,
        )

    def observe(self, cache: _Cache) -> Observation:
        """Length, capacity, rotated keys and values; there is no storage of fixed size to show."""
        return Observation(cache.length, cache.capacity, cache.keys, cache.values)

    def reset(self, cache: _Cache) -> None:
        """Forget every row; what the cache is bound to stays."""
        cache.rows, cache.keys = cache.rows[:, :0], cache.keys[:, :, :0]
        cache.values = cache.values[:, :, :0]

    def update_parameters(self, layer: _Layer, values: Mapping[str, Any]) -> None:
        """Write new numbers into parameter nodes; caches built before are stale from then on."""
        replaced = {name: _weights(name, value) for name, value in values.items()}
        for name, value in replaced.items():
            layer.nodes[name].value = value
            layer.nodes[name].revision += 1

    def rewire(
        self, layer: _Layer, *, config: LayerConfig | None = None, fresh: Collection[str] = ()
    ) -> _Layer:
        """A layer of the same nodes, but for those named in `fresh`: new nodes of equal numbers."""
        nodes = {
            name: _Node(node.value, node.revision) if name in fresh else node
            for name, node in layer.nodes.items()
        }
        return _Layer(config or layer.config, nodes)


def exact() -> ExactLayerAdapter:
    """The adapter named `exact`."""
    return ExactLayerAdapter()


def _require_input(layer: _Layer, cache: _Cache, rows: Array) -> None:
    if rows.ndim != 3:
        raise Rejected("input_rank", f"rows have {rows.ndim} axes, not 3", expected=3, found=rows.ndim)
    batch, count, width = rows.shape
    if count == 0:
        raise Rejected("empty_chunk", "an append takes at least one row")
    if batch != cache.batch_size:
        raise Rejected(
            "input_batch_mismatch", f"{batch} lanes for a cache of {cache.batch_size}",
            expected=cache.batch_size, found=batch,
        )
    if width != layer.config.model_width:
        raise Rejected(
            "input_width_mismatch", f"rows of width {width} for a layer of {layer.config.model_width}",
            expected=layer.config.model_width, found=width,
        )


def _require_geometry(layer: _Layer, cache: _Cache) -> None:
    one, other = cache.config, layer.config
    for kind, expected, found in (
        ("cache_model_width_mismatch", one.model_width, other.model_width),
        ("cache_head_count_mismatch", (one.heads, one.kv_heads), (other.heads, other.kv_heads)),
        ("cache_head_width_mismatch", one.head_width, other.head_width),
    ):
        if expected != found:
            raise Rejected(kind, f"the cache was built for {expected}, the layer has {found}",
                           expected=expected, found=found)


def _require_binding(layer: _Layer, cache: _Cache) -> None:
    for index, name in enumerate(PARAMETERS):
        if layer.nodes[name] is not cache.nodes[name]:
            message = f"the {name} weights are another parameter"
            raise Rejected("cache_layer_mismatch", message, parameter=index)
    for index, (expected, found) in enumerate(zip(cache.revisions, layer.revisions(), strict=True)):
        if expected != found:
            raise Rejected(
                "cache_layer_revision_mismatch", f"the {PARAMETERS[index]} weights have been updated",
                parameter=index, expected=expected, found=found,
            )
    if cache.config.rope != layer.config.rope:
        raise Rejected("cache_rope_mismatch", "the layer rotates in another way than the cache was built for",
                       expected=cache.config.rope, found=layer.config.rope)


def _require_room(cache: _Cache, rows: Array) -> None:
    if cache.length + rows.shape[1] > cache.capacity:
        raise Rejected(
            "full", f"{rows.shape[1]} rows after {cache.length} do not fit into {cache.capacity}",
            expected=cache.capacity, found=cache.length + rows.shape[1],
        )


def _require_finite(stage: str, numbers: Array) -> None:
    outside = np.flatnonzero(~np.isfinite(numbers))
    if outside.size:
        index = int(outside[0])
        raise Rejected(
            "non_finite", f"{stage} does not fit into float64", stage=stage, index=index,
            value=float(numbers.ravel()[index]),
        )


def _weights(name: str, value: Any) -> Array:
    copied = np.array(value, dtype=np.float64)
    if not np.isfinite(copied).all():
        raise ValueError(f"the {name} weights hold NaN or an infinity; an exact layer takes finite weights")
    return copied


def _rounded(nested: Any, width: int | None = None) -> Array:
    """Correctly rounded, as an array; with a `width`, rows of the last axis are filled up with zeros."""
    if isinstance(nested[0], list):
        return np.stack([_rounded(part, width) for part in nested])
    row = np.zeros(len(nested) if width is None else width)
    row[: len(nested)] = [nearest_float64(x) for x in nested]
    return row
