"""Which traces are played for which declaration, with bounds for the declared precision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from conformance import golden_files
from conformance.adapter import Declaration
from conformance.dialect import spoken
from conformance.golden_bounds import bounded
from conformance.scenarios import scenarios
from conformance.trace.model import Trace
from conformance.twins import twin


def traces(declaration: Declaration, *, seed: int = 0) -> Iterator[Trace]:
    """Every trace that this declaration allows, golden ones first, then their twins drawn from `seed`.

    All are said in its pairing and its order of query heads. Each expectation carries a bound; a trace whose
    features are not all declared is left out. Raises TraceError where a golden file is damaged.
    """
    golden = tuple(golden_traces(declaration))
    twins = (relative for trace in golden if (relative := twin(trace, seed)) is not None)
    for trace in (*golden, *twins, *scenarios(declaration)):
        if trace.needs <= declaration.features:
            yield spoken(replace(trace, dtype=declaration.dtypes[0]), declaration)


def golden_traces(declaration: Declaration) -> Iterator[Trace]:
    """The schedules of every golden file that can be asked of the declaration, with bounds for it."""
    if declaration.weights == "own":
        return
    for trace in golden_files.traces(declaration):
        yield bounded(trace, declaration)


def digest(played: Iterable[Trace]) -> str:
    """A digest of what was played: ids, operations, inputs and what was expected."""
    state = hashlib.blake2b(digest_size=16)
    for trace in played:
        state.update(trace.id.encode())
        for step in trace.steps:
            state.update(f"{step.op} {step.target} {step.layer} {step.label}".encode())
            for name in sorted(step.inputs):
                state.update(step.inputs[name].tobytes())
    return state.hexdigest()
