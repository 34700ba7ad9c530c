"""Scores and softmax: scale, maximum, normalisation."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenLayer, Work
from conformance.values import LayerConfig, LayerParameters


@killer(
    "scale_1_over_d", fault="SCALE", violates="AGREE-WEIGHTS", says="scores are divided by d, not by its root"
)
class _DividedByWidth(OpenLayerAdapter):
    def scale(self, work: Work) -> float:
        return 1.0 / work.layer.config.head_width


@killer("scale_none", fault="SCALE", violates="AGREE-WEIGHTS", says="scores are not scaled")
class _NotScaled(OpenLayerAdapter):
    def scale(self, work: Work) -> float:
        return 1.0


@killer(
    "scale_sqrt_D",
    fault="SCALE",
    violates="AGREE-WEIGHTS",
    says="scores are divided by the root of the model width",
)
class _RootOfModelWidth(OpenLayerAdapter):
    def scale(self, work: Work) -> float:
        return 1.0 / float(np.sqrt(work.layer.config.heads * work.layer.config.head_width))


@killer("scale_f32", fault="DTYPE-SOFTMAX", violates="AGREE-OUTPUT", says="the scale is rounded to float32")
class _Float32Scale(OpenLayerAdapter):
    def scale(self, work: Work) -> float:
        return float(np.float32(super().scale(work)))


@killer(
    "scale_keyed_on_model_width",
    fault="KEY-INCOMPLETE",
    violates="ISOLATE-CACHES",
    says="the scale is kept by model width; a layer of other heads gets that of the first",
)
class _ScaleKeyedOnWidth(OpenLayerAdapter):
    def __init__(self) -> None:
        self.kept: dict[int, float] = {}

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> OpenLayer:
        self.kept.setdefault(config.model_width, 1.0 / float(np.sqrt(config.head_width)))
        return super().build_layer(config, parameters)

    def scale(self, work: Work) -> float:
        return self.kept.get(work.layer.config.model_width, super().scale(work))


@killer(
    "single_row_scale",
    fault="PATH-MATH-MISMATCH",
    violates="AGREE-WEIGHTS",
    says="the path of a single row divides scores by d; chunks are scaled rightly",
)
class _SingleRowScale(OpenLayerAdapter):
    def scale(self, work: Work) -> float:
        return 1.0 / work.layer.config.head_width if work.count == 1 else super().scale(work)


@killer(
    "chunk_scale",
    fault="PATH-MATH-MISMATCH",
    violates="CHUNK-AGREE",
    says="the path of a chunk divides scores by d; single rows are scaled rightly",
)
class _ChunkScale(OpenLayerAdapter):
    def scale(self, work: Work) -> float:
        return 1.0 / work.layer.config.head_width if work.count > 1 else super().scale(work)


@killer(
    "chunk_in_float32",
    fault="PATH-MATH-MISMATCH",
    violates="CHUNK-AGREE",
    says="the path of a chunk computes its scores in float32",
)
class _ChunkInFloat32(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        made = super().scores(work)
        return made.astype(np.float32).astype(np.float64) if work.count > 1 else made


@killer(
    "no_max_subtraction",
    fault="SOFTMAX-STABILITY",
    violates="AGREE-OUTPUT",
    says="exponentials are taken without subtracting the maximum",
)
class _NoMaximum(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        return _normalised(np.exp(self.masked(work)))


@killer(
    "global_max",
    fault="SOFTMAX-STABILITY",
    violates="AGREE-OUTPUT",
    says="one maximum of all lanes and heads is subtracted",
)
class _GlobalMaximum(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        masked = self.masked(work)
        return _normalised(np.exp(masked - masked.max()))


@killer(
    "max_wrong_axis",
    fault="SOFTMAX-STABILITY",
    violates="AGREE-WEIGHTS",
    says="the maximum is taken over the queries of the call, not over the positions",
)
class _MaximumOverQueries(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        masked = self.masked(work)
        grown = np.exp(masked - masked.max(axis=-2, keepdims=True))
        return np.nan_to_num(_normalised(grown))


@killer(
    "softmax_f32", fault="DTYPE-SOFTMAX", violates="AGREE-OUTPUT", says="exponentials are rounded to float32"
)
class _Float32Exponentials(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        return _normalised(self.exponentials(work).astype(np.float32).astype(np.float64))


@killer(
    "norm_eps",
    fault="SOFTMAX-NORMALISATION",
    violates="AGREE-OUTPUT",
    says="1e-6 is added to the denominator",
)
class _LargeEpsilon(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        return _normalised(self.exponentials(work), extra=1e-6)


@killer(
    "norm_eps_1e12",
    fault="SOFTMAX-NORMALISATION",
    violates="AGREE-OUTPUT",
    says="1e-9 is added to the denominator",
)
class _SmallEpsilon(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        return _normalised(self.exponentials(work), extra=1e-9)


@killer(
    "softmax1",
    fault="SOFTMAX-NORMALISATION",
    violates="AGREE-WEIGHTS",
    says="one exponential of a score 0 more stands in the denominator",
)
class _PlusOne(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        top = self.masked(work).max(axis=-1, keepdims=True)
        return _normalised(self.exponentials(work), extra=np.exp(-top))


@killer(
    "softmax_axis_heads",
    fault="SOFTMAX-NORMALISATION",
    violates="AGREE-WEIGHTS",
    says="weights are normalised over heads",
)
class _OverHeads(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        return np.nan_to_num(_normalised(self.exponentials(work), axis=1))


@killer(
    "softmax_axis_query",
    fault="SOFTMAX-NORMALISATION",
    violates="AGREE-WEIGHTS",
    says="weights are normalised over the queries of the call",
)
class _OverQueries(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        return np.nan_to_num(_normalised(self.exponentials(work), axis=2))


@killer(
    "not_normalised",
    fault="SOFTMAX-NORMALISATION",
    violates="AGREE-WEIGHTS",
    says="weights are not normalised",
)
class _NotNormalised(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        return self.exponentials(work)


@killer(
    "uniform_weights",
    fault="SOFTMAX-NORMALISATION",
    violates="AGREE-WEIGHTS",
    says="all visible rows get the same weight",
)
class _Uniform(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        return _normalised(np.where(np.isfinite(self.masked(work)), 1.0, 0.0))


def _normalised(grown: Array, *, extra: float | Array = 0.0, axis: int = -1) -> Array:
    made: Array = grown / (grown.sum(axis=axis, keepdims=True) + extra)
    return made
