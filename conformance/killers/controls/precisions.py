"""Narrower arithmetic, declared; and arithmetic that is not repeatable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.adapter import Declaration, Precision
from conformance.killers.controls.model import control
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, Work
from conformance.values import LayerConfig


@control("float32", says="everything but the angles is float32", strict=False)
class _Float32(OpenLayerAdapter):
    storage_dtype = np.float32
    precision = Precision(storage="float32", arithmetic="float32", softmax="float32")

    @property
    def declaration(self) -> Declaration:
        return replace(super().declaration, dtypes=("float32",))

    def turn(self, config: LayerConfig, positions: Array) -> tuple[Array, Array]:
        cosine, sine = super().turn(config, positions)
        return cosine.astype(np.float32), sine.astype(np.float32)


@control("float32_angles", says="everything is float32, the angles too", strict=False)
class _Float32Angles(_Float32):
    precision = Precision(storage="float32", arithmetic="float32", softmax="float32", angles="float32")

    def frequencies(self, config: LayerConfig) -> Array:
        return super().frequencies(config).astype(np.float32)

    def turn(self, config: LayerConfig, positions: Array) -> tuple[Array, Array]:
        angle = np.asarray(positions, np.float32)[..., None] * self.frequencies(config)
        return np.cos(angle), np.sin(angle)


@control("float32_softmax", says="float64, with a softmax in float32", strict=True)
class _Float32Softmax(OpenLayerAdapter):
    precision = Precision(softmax="float32")

    def exponentials(self, work: Work) -> Array:
        masked = self.masked(work)
        lowered = (masked - masked.max(axis=-1, keepdims=True)).astype(np.float32)
        return np.exp(lowered).astype(np.float64)


@control("float32_rows", says="float64, with rows kept in float32", strict=True)
class _Float32Rows(OpenLayerAdapter):
    storage_dtype = np.float32
    precision = Precision(storage="float32")


@control(
    "float32_in_float64_rows", says="float32 rows on the outside, float64 arithmetic inside", strict=False
)
class _WideInside(_Float32):
    precision = Precision(storage="float32", arithmetic="float64", softmax="float64")

    def project(self, work: Work, name: str) -> Array:
        return work.rows.astype(np.float64) @ work.layer.nodes[name].value.astype(np.float64)

    def turn(self, config: LayerConfig, positions: Array) -> tuple[Array, Array]:
        return OpenLayerAdapter.turn(self, config, positions)

    def retained_keys(self, work: Work) -> Array:
        return super().retained_keys(work).astype(np.float64)

    def retained_values(self, work: Work) -> Array:
        return super().retained_values(work).astype(np.float64)

    def output(self, work: Work) -> Array:
        return super().output(work).astype(np.float32)


@control("not_repeatable", says="features are summed in an order drawn anew in every call", strict=True)
class _NotRepeatable(OpenLayerAdapter):
    deterministic = False

    def __init__(self) -> None:
        self.draw = np.random.default_rng(20251129)

    def scores(self, work: Work) -> Array:
        keys, query = self.grouped_keys(work), work.stages["rotated_query"]
        total = np.zeros((*query.shape[:3], keys.shape[2]))
        for feature in self.draw.permutation(query.shape[3]):
            total = total + query[..., feature, None] * keys[:, :, None, :, feature]
        return total * self.scale(work)

    def heads(self, work: Work) -> Array:
        values, weights = self.grouped_values(work), work.stages["weights"]
        total = np.zeros((*weights.shape[:3], values.shape[3]))
        for position in self.draw.permutation(values.shape[2]):
            total = total + weights[..., position, None] * values[:, :, position, None]
        return total


@control("not_repeatable_projection", says="projections round otherwise in every call, rows included",
         strict=True)  # fmt: skip
class _ProjectionNotRepeatable(OpenLayerAdapter):
    deterministic = False

    def __init__(self) -> None:
        self.draw = np.random.default_rng(20251130)

    def project(self, work: Work, name: str) -> Array:
        weight = work.layer.nodes[name].value
        order = self.draw.permutation(weight.shape[0])
        total = np.zeros((*work.rows.shape[:2], weight.shape[1]))
        for feature in order:
            total = total + work.rows[..., feature, None] * weight[feature]
        return total
