"""The player: what it copies, what it contains, where it stops."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from conformance.adapter import Declaration
from conformance.adapters.numpy_layer import NumpyLayerAdapter
from conformance.judge import judge
from conformance.player import Errored, RefusedCall, Returned, play
from conformance.rejections import Rejected
from conformance.scenarios import scenarios
from conformance.trace.model import Trace
from conformance.values import Observation


class Clean(NumpyLayerAdapter):
    """The embedded layer, to be broken one method at a time."""


def trace_named(name: str, adapter: Any) -> Trace:
    return next(t for t in scenarios(adapter.declaration) if t.id == name)


def statuses(adapter: Any, name: str, requirement: str) -> set[str]:
    played = play(trace_named(name, adapter), adapter)
    return {c.status for c in judge(played, adapter.declaration) if c.requirement == requirement}


class WritesThenRefuses(Clean):
    """Spoils the first row in place before it refuses, through arrays that it shows as views."""

    def append(self, layer: Any, cache: Any, rows: Any) -> Any:
        if cache.length == 4:
            cache._keys[0, 0, 0, 0] += 1.0
        return super().append(layer, cache, rows)


def test_views_are_copied_at_the_moment_of_observation() -> None:
    """Were views compared, before and after would be one array, and the spoilt row would go unseen."""
    assert "fail" in statuses(WritesThenRefuses(), "refused-full", "ATOMIC-ROWS")
    assert "fail" in statuses(WritesThenRefuses(), "refused-full", "ATOMIC-BYTES")
    assert statuses(Clean(), "refused-full", "ATOMIC-ROWS") == {"pass"}


@pytest.mark.parametrize(
    "raised", [SystemExit, KeyboardInterrupt, MemoryError, RecursionError, ValueError, GeneratorExit]
)
def test_whatever_an_append_raises_is_contained(raised: type[BaseException]) -> None:
    class Raises(Clean):
        def append(self, layer: Any, cache: Any, rows: Any) -> Any:
            raise raised("from inside")

    adapter = Raises()
    played = play(trace_named("append-five", adapter), adapter)
    assert played.stopped
    assert len(played.records) == 1
    outcome = played.records[0].outcome
    assert isinstance(outcome, Errored)
    assert raised.__name__ in outcome.message
    assert "from inside" in outcome.detail
    assert "conformance/player" not in outcome.detail
    checks = judge(played, adapter.declaration)
    assert {c.status for c in checks} == {"error"}
    assert "AGREE-OUTPUT" in {c.requirement for c in checks}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "None"),
        ([[0.0]], "list"),
        (3.0, "float"),
        ("text", "str"),
        (np.array(["a"]), "dtype"),
        (np.array([1 + 2j]), "dtype"),
    ],
)
def test_an_answer_that_is_no_array_is_an_error_with_words(answer: object, words: str) -> None:
    class Answers(Clean):
        def append(self, layer: Any, cache: Any, rows: Any) -> Any:
            super().append(layer, cache, rows)
            return answer

    adapter = Answers()
    played = play(trace_named("append-five", adapter), adapter)
    outcome = played.records[0].outcome
    assert isinstance(outcome, Errored)
    assert words in outcome.message


@pytest.mark.parametrize("length", [-1, 1.0, float("nan"), None, True, "1"])
def test_a_length_that_is_no_count_is_an_error(length: Any) -> None:
    class Shows(Clean):
        def observe(self, cache: Any) -> Observation:
            return Observation(length)

    adapter = Shows()
    outcome = play(trace_named("append-five", adapter), adapter).records[0].outcome
    assert isinstance(outcome, Errored)
    assert "Observation.length" in outcome.message


def test_an_observation_that_is_none_is_an_error() -> None:
    class Shows(Clean):
        def observe(self, cache: Any) -> Any:
            return {"length": 1}

    adapter = Shows()
    outcome = play(trace_named("append-five", adapter), adapter).records[0].outcome
    assert isinstance(outcome, Errored)
    assert "Observation" in outcome.message


def test_a_mapped_exception_is_a_rejection() -> None:
    class TooManyError(Exception):
        pass

    class Mapped(Clean):
        def __init__(self) -> None:
            super().__init__("one")
            own = self.declaration
            self.declaration = Declaration(
                name="mapped", features=own.features, rejections={TooManyError: "full"}
            )

        def append(self, layer: Any, cache: Any, rows: Any) -> Any:
            try:
                return super().append(layer, cache, rows)
            except Rejected as refusal:
                if refusal.kind != "full":
                    raise
                raise TooManyError("no room") from refusal

    adapter = Mapped()
    played = play(trace_named("refused-full", adapter), adapter)
    refused = [r.outcome for r in played.records if isinstance(r.outcome, RefusedCall)]
    assert [r.kind for r in refused] == ["full", "full"]
    assert "no room" in refused[0].message


def test_a_refusal_of_a_lawful_call_fails_what_the_step_was_to_show() -> None:
    class Refuses(Clean):
        def append(self, layer: Any, cache: Any, rows: Any) -> Any:
            raise Rejected("full", "always")

    adapter = Refuses()
    played = play(trace_named("append-five", adapter), adapter)
    assert played.stopped
    failed = {c.requirement for c in judge(played, adapter.declaration) if c.status == "fail"}
    assert "AGREE-OUTPUT" in failed


def test_inputs_are_fresh_copies_and_changes_of_them_are_seen() -> None:
    class Mutates(Clean):
        def append(self, layer: Any, cache: Any, rows: Any) -> Any:
            step = super().append(layer, cache, rows)
            rows[...] = 0.0
            return step

    assert statuses(Mutates(), "inputs-kept", "ISOLATE-INPUTS") == {"fail"}
    assert statuses(Clean(), "inputs-kept", "ISOLATE-INPUTS") == {"pass"}


def test_warnings_of_an_adapter_do_not_leak() -> None:
    class Warns(Clean):
        def append(self, layer: Any, cache: Any, rows: Any) -> Any:
            warnings.warn("noise", stacklevel=1)
            np.float64(1.0) / np.float64(0.0)
            return super().append(layer, cache, rows)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        played = play(trace_named("append-five", Warns()), Warns())
    assert all(isinstance(r.outcome, Returned) for r in played.records)


def test_a_declared_feature_without_its_method_is_an_error_that_names_it() -> None:
    adapter = Clean()
    adapter.poison = None  # type: ignore[assignment,method-assign]
    played = play(trace_named("unused-slots", adapter), adapter)
    outcome = played.records[-1].outcome
    assert isinstance(outcome, Errored)
    assert "poison" in outcome.message


def test_a_layer_that_cannot_be_built_is_an_error_on_every_requirement_of_the_trace() -> None:
    class Unbuildable(Clean):
        def build_layer(self, config: Any, parameters: Any) -> Any:
            raise RuntimeError("no such kernel")

    adapter = Unbuildable()
    trace = trace_named("append-five", adapter)
    checks = judge(play(trace, adapter), adapter.declaration)
    assert {c.requirement for c in checks} == set(trace.requirements())
    assert {c.status for c in checks} == {"error"}
    assert "no such kernel" in checks[0].message
