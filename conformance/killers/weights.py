"""Weights: which matrix is used, and how."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, Node, OpenLayer, Work
from conformance.values import LayerConfig, LayerParameters


def _as_read(weight: Array, shape: tuple[int, ...]) -> Array:
    """The transpose, read in the shape that is wanted: what a file in the other convention gives."""
    return np.ascontiguousarray(weight.T).reshape(shape)


class _Transposed(OpenLayerAdapter):
    """Uses one weight transposed."""

    which = ""

    def project(self, work: Work, name: str) -> Array:
        weight = work.layer.nodes[name].value
        return work.rows @ (_as_read(weight, weight.shape) if name == self.which else weight)


@killer(
    "Wq_transposed",
    fault="WEIGHT-ORIENTATION",
    violates="AGREE-PROJECTED",
    says="the query weight is used transposed",
)
class _QueryTransposed(_Transposed):
    which = "query"


@killer(
    "Wk_transposed",
    fault="WEIGHT-ORIENTATION",
    violates="AGREE-PROJECTED",
    says="the key weight is used transposed",
)
class _KeyTransposed(_Transposed):
    which = "key"


@killer(
    "Wv_transposed",
    fault="WEIGHT-ORIENTATION",
    violates="STORE-VALUES",
    says="the value weight is used transposed",
)
class _ValueTransposed(_Transposed):
    which = "value"


@killer(
    "Wo_transposed",
    fault="WEIGHT-ORIENTATION",
    violates="AGREE-OUTPUT",
    says="the output weight is used transposed",
)
class _OutputTransposed(OpenLayerAdapter):
    def output(self, work: Work) -> Array:
        weight = work.layer.nodes["output"].value
        return work.stages["merged"] @ _as_read(weight, weight.shape)


@killer(
    "Wo_identity",
    fault="PROJECTION-LEFT-OUT",
    violates="AGREE-OUTPUT",
    says="the output projection is left out",
)
class _NoOutputProjection(OpenLayerAdapter):
    def output(self, work: Work) -> Array:
        return work.stages["merged"]


@killer(
    "single_row_no_projection",
    fault="PATH-MATH-MISMATCH",
    violates="AGREE-OUTPUT",
    says="the path of a single row leaves the output projection out",
)
class _SingleRowNoProjection(OpenLayerAdapter):
    def output(self, work: Work) -> Array:
        return work.stages["merged"] if work.count == 1 else super().output(work)


@killer(
    "residual_added",
    fault="PROJECTION-LEFT-OUT",
    violates="AGREE-OUTPUT",
    says="the input is added to the output",
)
class _ResidualAdded(OpenLayerAdapter):
    def output(self, work: Work) -> Array:
        return super().output(work) + work.rows


@killer(
    "single_row_residual",
    fault="PATH-MATH-MISMATCH",
    violates="AGREE-OUTPUT",
    says="the path of a single row adds the input to the output",
)
class _SingleRowResidual(OpenLayerAdapter):
    def output(self, work: Work) -> Array:
        return super().output(work) + (work.rows if work.count == 1 else 0.0)


def _swapped(first: str, second: str) -> type[OpenLayerAdapter]:
    class Swapped(OpenLayerAdapter):
        def project(self, work: Work, name: str) -> Array:
            weight = work.layer.nodes[name].value
            other = work.layer.nodes[{first: second, second: first}.get(name, name)].value
            return work.rows @ (other if other.shape == weight.shape else weight)

    return Swapped


killer("swap_Wq_Wk", fault="KV-SWAP", violates="AGREE-PROJECTED", says="query and key weights are exchanged")(
    _swapped("query", "key")
)
killer("swap_Wk_Wv", fault="KV-SWAP", violates="AGREE-PROJECTED", says="key and value weights are exchanged")(
    _swapped("key", "value")
)


@killer(
    "v_equals_k", fault="KV-SWAP", violates="STORE-VALUES", says="values are projected with the key weight"
)
class _ValuesFromKeyWeight(OpenLayerAdapter):
    def value(self, work: Work) -> Array:
        return self.split(self.project(work, "key"), work.layer.config.kv_heads)


@killer(
    "values_read_from_keys",
    fault="KV-SWAP",
    violates="AGREE-HEADS",
    says="the store of keys is read as the store of values",
)
class _ValuesReadFromKeys(OpenLayerAdapter):
    def retained_values(self, work: Work) -> Array:
        width = work.cache.values.shape[-1]
        return work.cache.keys[:, :, : work.start, :width]


@killer(
    "weights_keyed_on_shape",
    fault="KEY-INCOMPLETE",
    violates="ISOLATE-CACHES",
    says="weights are kept by their shape; a second layer of the same shape gets those of the first",
)
class _WeightsKeyedOnShape(OpenLayerAdapter):
    def __init__(self) -> None:
        self.kept: dict[Any, Array] = {}

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> OpenLayer:
        layer = super().build_layer(config, parameters)
        layer.notes["fused"] = self.kept.setdefault(
            (config.model_width, config.heads, config.kv_heads), layer.nodes["value"].value.copy()
        )
        return layer

    def value(self, work: Work) -> Array:
        fused = work.layer.notes.get("fused", work.layer.nodes["value"].value)
        return self.split(work.rows @ fused, work.layer.config.kv_heads)


@killer(
    "weights_copied_at_build",
    fault="STALE-WEIGHTS",
    violates="BIND-NEW-CACHE",
    says="the layer copies its weights when it is built: an update raises the revision and changes nothing",
)
class _WeightsCopied(OpenLayerAdapter):
    def update_parameters(self, layer: OpenLayer, parameters: dict[str, Array]) -> None:
        for name in parameters:
            layer.nodes[name].revision += 1


@killer(
    "update_rebuilds_node",
    fault="STALE-WEIGHTS",
    violates="BIND-REVISION",
    says="an update in place makes new nodes, so that it is told as another layer",
)
class _UpdateRebuilds(OpenLayerAdapter):
    def update_parameters(self, layer: OpenLayer, parameters: dict[str, Array]) -> None:
        for name, value in parameters.items():
            layer.nodes[name] = Node(np.asarray(value))
