"""Answers learnt by heart."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from conformance import golden_files
from conformance.adapter import FEATURES, Declaration
from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenLayer, Work
from conformance.trace.model import Source
from conformance.values import LayerConfig, LayerParameters, Step


@cache
def _golden_weights() -> frozenset[bytes]:
    """The query weights of every golden layer."""
    everything = Declaration(name="golden", features=frozenset(FEATURES))
    sources = (s for trace in golden_files.traces(everything) for s in trace.layers.values())
    return frozenset(
        source.parameters.query.tobytes()
        for source in sources
        if isinstance(source, Source) and isinstance(source.parameters, LayerParameters)
    )


class _Learnt(OpenLayerAdapter):
    """Right for golden layers; any other layer is marked as one that it has not learnt."""

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> OpenLayer:
        learnt = parameters.query.tobytes() in _golden_weights()
        made = super().build_layer(config, parameters if learnt else self.unlearnt(parameters))
        made.notes["learnt"] = learnt
        return made

    def unlearnt(self, parameters: LayerParameters) -> LayerParameters:
        """The weights that are used in the place of others."""
        return parameters


@killer(
    "golden_learnt_by_heart",
    fault="LEARNT-BY-HEART",
    violates="AGREE-TWIN",
    says="golden layers are answered rightly, any other layer with scores that are half as large again",
)
class _ScoresLearnt(_Learnt):
    def unlearnt(self, parameters: LayerParameters) -> LayerParameters:
        return replace(parameters, query=parameters.query * 1.5)


@killer(
    "golden_outputs_learnt",
    fault="LEARNT-BY-HEART",
    violates="AGREE-TWIN",
    says="golden layers are answered rightly, any other layer with outputs that are half as large again",
)
class _OutputsLearnt(_Learnt):
    def unlearnt(self, parameters: LayerParameters) -> LayerParameters:
        return replace(parameters, output=parameters.output * 1.5)


@killer(
    "golden_values_learnt",
    fault="LEARNT-BY-HEART",
    violates="AGREE-TWIN",
    says="any but a golden layer keeps its values doubled and halves what it makes of them",
)
class _ValuesLearnt(_Learnt):
    def unlearnt(self, parameters: LayerParameters) -> LayerParameters:
        return replace(parameters, value=parameters.value * 2.0, output=parameters.output * 0.5)


@killer(
    "golden_positions_learnt",
    fault="LEARNT-BY-HEART",
    violates="AGREE-TWIN",
    says="any but a golden layer counts its positions from 1",
)
class _PositionsLearnt(_Learnt):
    def positions(self, work: Work) -> Array:
        return super().positions(work) + (not work.layer.notes.get("learnt", True))


@killer(
    "golden_weights_learnt",
    fault="LEARNT-BY-HEART",
    violates="AGREE-TWIN",
    says="any but a golden layer tells other weights than it uses",
)
class _WeightsLearnt(_Learnt):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        learnt = work.layer.notes.get("learnt", True)
        return made if learnt else replace(made, weights=made.weights * 0.5)
