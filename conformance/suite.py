"""Which traces are played for which declaration, with bounds for the declared precision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from conformance import golden_files
from conformance.adapter import Declaration, Precision
from conformance.dialect import spoken
from conformance.dtypes import fed, in_dtype
from conformance.golden_bounds import bounded
from conformance.scenarios import of_further_dtypes, scenarios
from conformance.trace.model import Trace
from conformance.twins import twin


def traces(declaration: Declaration, *, seed: int = 0) -> Iterator[Trace]:
    """Every trace that this declaration allows, golden ones first, then their twins drawn from `seed`.

    What follows is made for the declaration; last come, for each further dtype, the golden traces once more,
    as `NAME@float32`. All are said in its pairing and its order of query heads. Each expectation carries a
    bound; a trace whose features are not all declared is left out. Raises TraceError where a golden file is
    damaged.
    """
    first = declaration.dtypes[0]
    given = _given(declaration)
    own = [fed(trace, first) for trace in given]
    made = (*_golden(own, declaration), *_twins(own, declaration, seed), *scenarios(declaration))
    yield from _played(made, declaration)
    for dtype in declaration.dtypes[1:]:
        narrow = in_dtype(declaration, dtype)
        again = (*_golden((fed(trace, dtype) for trace in given), narrow), *of_further_dtypes(narrow))
        yield from (replace(trace, id=f"{trace.id}@{dtype}") for trace in _played(again, narrow))


def _can_be_built(trace: Trace, declaration: Declaration) -> bool:
    """Whether the head widths of a trace are such as the implementation has."""
    if trace.level == "decoder":
        return True
    for source in trace.layers.values():
        config: Any = source.config
        if config is None:
            continue
        key = getattr(config, "key_width", None) or config.head_width
        value = getattr(config, "value_width", key)
        if key % declaration.head_width_multiple or value % declaration.head_width_multiple:
            return False
        if key != value and declaration.value_width == "key":
            return False
    return True


def golden_traces(declaration: Declaration) -> Iterator[Trace]:
    """The schedules of every golden file that can be asked of the declaration, with bounds for it."""
    return _golden((fed(trace, declaration.dtypes[0]) for trace in _given(declaration)), declaration)


def _given(declaration: Declaration) -> tuple[Trace, ...]:
    """Golden traces as they stand in their files."""
    return () if declaration.weights == "own" else tuple(golden_files.traces(declaration))


def _golden(given: Iterable[Trace], declaration: Declaration) -> Iterator[Trace]:
    return (bounded(trace, declaration) for trace in given)


def _twins(given: Iterable[Trace], declaration: Declaration, seed: int) -> Iterator[Trace]:
    """In float64 a bound is multiplied as its value is; elsewhere rounding to zero has a size of its own."""
    exact = declaration.precision == Precision() and declaration.dtypes[0] == "float64"
    for trace in given:
        relative = twin(bounded(trace, declaration) if exact else trace, seed)
        if relative is not None:
            yield relative if exact else bounded(relative, declaration)


def _played(made: Iterable[Trace], declaration: Declaration) -> Iterator[Trace]:
    for trace in made:
        if trace.needs <= declaration.features and _can_be_built(trace, declaration):
            yield spoken(replace(trace, dtype=declaration.dtypes[0]), declaration)


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
