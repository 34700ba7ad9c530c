"""Twins: right implementations pass them, whoever knows the golden files by heart does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.adapters.numpy_layer import NumpyLayerAdapter, numpy_chunks
from conformance.judge import judge
from conformance.player import play
from conformance.suite import golden_traces
from conformance.trace.expect import Close
from conformance.twins import kinship, twin

DECLARED = numpy_chunks().declaration
PAIRS = [(trace, 7) for trace in golden_traces(DECLARED) if twin(trace, 7) is not None]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("trace", [t for t, _ in PAIRS], ids=lambda t: t.id)
def test_a_right_implementation_passes(trace: Any, seed: int) -> None:
    adapter = numpy_chunks()
    related = twin(trace, seed)
    assert related is not None
    checks = judge(play(related, adapter), adapter.declaration)
    assert {c.status for c in checks} == {"pass"}
    assert "AGREE-TWIN" in {c.requirement for c in checks}


class LearntByHeart(NumpyLayerAdapter):
    """Knows the outputs of the golden inputs and has forgotten how to scale the scores of any others."""

    def __init__(self) -> None:
        super().__init__("any")
        self.known = {
            value.tobytes()
            for trace in golden_traces(DECLARED)
            for source in trace.layers.values()
            if (value := getattr(getattr(source, "parameters", None), "query", None)) is not None
        }

    def build_layer(self, config: Any, parameters: Any) -> Any:
        if parameters.query.tobytes() not in self.known:
            parameters = replace(parameters, query=parameters.query * 1.5)
        return super().build_layer(config, parameters)


def test_golden_values_learnt_by_heart_pass_the_golden_and_fail_the_twin() -> None:
    adapter = LearntByHeart()
    trace = next(t for t in golden_traces(DECLARED) if t.id == "mod-square/single")
    related = twin(trace, 11)
    assert related is not None
    assert {c.status for c in judge(play(trace, adapter), DECLARED)} == {"pass"}
    failed = {c.requirement for c in judge(play(related, adapter), DECLARED) if c.status == "fail"}
    assert failed == {"AGREE-TWIN"}


def test_a_twin_follows_from_seed_and_trace_alone() -> None:
    assert kinship(3, "a", 2, 2) == kinship(3, "a", 2, 2)
    drawn = {kinship(seed, "a", 3, 3) for seed in range(20)}
    assert len(drawn) > 15


def test_a_twin_is_never_the_golden_trace_itself() -> None:
    for trace, seed in PAIRS:
        related = twin(trace, seed)
        assert related is not None
        own = [
            e.value for s in related.steps for e in s.expect if isinstance(e, Close) and e.field == "values"
        ]
        golden = [
            e.value for s in trace.steps for e in s.expect if isinstance(e, Close) and e.field == "values"
        ]
        assert not all(np.array_equal(a, b) for a, b in zip(own, golden, strict=True))
