"""Answers learnt by heart."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from conformance import golden_files
from conformance.adapter import FEATURES, Declaration
from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import OpenLayer
from conformance.trace.model import Source
from conformance.values import LayerConfig, LayerParameters


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


@killer(
    "golden_learnt_by_heart",
    fault="LEARNT-BY-HEART",
    violates="AGREE-TWIN",
    says="golden layers are answered rightly, any other layer with scores that are half as large again",
)
class _LearntByHeart(OpenLayerAdapter):
    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> OpenLayer:
        if parameters.query.tobytes() not in _golden_weights():
            parameters = replace(parameters, query=parameters.query * 1.5)
        return super().build_layer(config, parameters)
