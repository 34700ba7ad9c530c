"""The one player: trace and adapter in, playthrough out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.errors import AdapterError
from conformance.player import capture
from conformance.player.contain import call, interruptible
from conformance.player.records import (
    CacheView,
    Errored,
    Outcome,
    Playthrough,
    RefusedCall,
    Returned,
    StepRecord,
)
from conformance.player.stage import Stage
from conformance.trace.expect import Close, Length, Same, Shapes
from conformance.trace.model import Operation, Trace

ANSWERS = frozenset({"append", "full_prefix", "prefill", "decode"})
"""Operations that must hand something out."""


def play(trace: Trace, adapter: Any, *, on_step: Callable[[int], None] | None = None) -> Playthrough:
    """Play `trace` on `adapter` and record every step.

    A step that goes another way than expected (an error, a refusal nobody asked for, a call accepted that
    had to be refused) ends the trace, because nothing that follows would mean anything.
    """
    declaration: Declaration = adapter.declaration
    stage = Stage(trace, adapter)
    with interruptible():
        built = call(declaration, stage.build)
        if isinstance(built, Errored | RefusedCall):
            return Playthrough(trace, (), broken=built, stopped=True)
        records: list[StepRecord] = []
        seen: dict[str, CacheView] = {}
        for index, operation in enumerate(trace.steps):
            if on_step is not None:
                on_step(index)
            record = _step(stage, declaration, index, operation, seen)
            records.append(record)
            if _went_astray(record):
                return Playthrough(trace, tuple(records), stopped=True)
    return Playthrough(trace, tuple(records))


def _step(
    stage: Stage, declaration: Declaration, index: int, operation: Operation, seen: dict[str, CacheView]
) -> StepRecord:
    watched = _watched(stage, operation)
    before: dict[str, CacheView] = {}
    logical = _asks_rows_alone(operation)
    for name in watched:
        if logical and name not in seen:
            continue
        earlier = seen.get(name) or _observed(stage, declaration, name)
        if isinstance(earlier, Errored):
            return StepRecord(index, operation, earlier, before, {})
        before[name] = earlier
    inputs = {name: stage.cast(value) for name, value in operation.inputs.items()}
    kept = {name: value.copy() for name, value in inputs.items()}
    outcome = _carry_out(stage, declaration, operation, inputs)
    changed = tuple(name for name, value in inputs.items() if not _same_bits(value, kept[name]))
    if isinstance(outcome, Returned) and operation.op == "append":
        stage.caches[operation.target].accepted.append(kept)
    after: dict[str, CacheView] = {}
    # A change of one cache may reach another: what was seen of the others is no longer evidence.
    seen.clear()
    for name in (*watched, *_appeared(stage, operation, watched)):
        later = _observed(stage, declaration, name, storage=not logical)
        if isinstance(later, Errored):
            # Where the call itself broke, or was accepted against the rule, that is the cause; that nothing
            # can be seen afterwards follows.
            cause = (
                outcome if isinstance(outcome, Errored) or _accepted_wrongly(operation, outcome) else later
            )
            return StepRecord(index, operation, cause, before, {}, changed)
        after[name] = later
        if not logical:
            seen[name] = later
    return StepRecord(index, operation, outcome, before, after, changed)


def _accepted_wrongly(operation: Operation, outcome: Outcome) -> bool:
    return isinstance(outcome, Returned) and operation.must_be_refused


def _watched(stage: Stage, operation: Operation) -> tuple[str, ...]:
    if operation.watch is not None:
        return operation.watch
    return (operation.target,) if operation.target in stage.caches else ()


def _appeared(stage: Stage, operation: Operation, watched: tuple[str, ...]) -> tuple[str, ...]:
    """A cache that this very step has built is observed after it."""
    name = str(operation.arguments.get("name", operation.target))
    new = operation.op in ("build", "fork", "twin") and name in stage.caches
    return (name,) if new and name not in watched and operation.watch is None else ()


def _asks_rows_alone(operation: Operation) -> bool:
    """Whether a step only looks, and at nothing but logical rows: one look is enough, without the storage."""
    only_looks = operation.op == "observe" and not operation.arguments
    return only_looks and all(isinstance(e, Close | Same | Length | Shapes) for e in operation.expect)


def _observed(
    stage: Stage, declaration: Declaration, name: str, *, storage: bool = True
) -> CacheView | Errored:
    shown = call(declaration, lambda: capture.view(stage.observe(name), storage=storage))
    if isinstance(shown, RefusedCall):
        return Errored(f"observe refused: {shown.kind}: {shown.message}")
    if isinstance(shown, Errored):
        return replace(shown, message=f"observe: {shown.message}")
    return shown


def _carry_out(
    stage: Stage, declaration: Declaration, operation: Operation, inputs: dict[str, NDArray[Any]]
) -> Outcome:
    handed: dict[str, Any] = {}

    def work() -> Returned:
        value = stage.run(operation, inputs)
        if operation.op in ANSWERS and value is None and stage.trace.level != "store":
            raise AdapterError(f"{operation.op} returned None; it must return its output")
        if isinstance(value, tuple) and stage.trace.level == "store":
            value = {"prefix_keys": value[0], "prefix_values": value[1]}
        if value is None:
            return Returned()
        handed.update(value if isinstance(value, dict) else capture.raw_fields(value))
        return capture.returned(value, _kept(operation, handed))

    outcome = call(declaration, work)
    if operation.label:
        stage.given[operation.label] = inputs
        stage.handed[operation.label] = handed
    if isinstance(outcome, Returned) and operation.asks_apart:
        return replace(outcome, aliases=_aliases(stage, operation, handed))
    return outcome


def _kept(operation: Operation, handed: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is copied of the arrays that a call handed out: of a step in a long trace, only what is asked for.

    The evidence of n steps holds n * n weights, which no one looks at there.
    """
    if operation.watch != () or operation.label:
        return handed
    asked = {"output", *(e.field for e in operation.expect if isinstance(e, Close | Same))}
    return {name: value for name, value in handed.items() if name in asked}


def _aliases(stage: Stage, operation: Operation, handed: Mapping[str, Any]) -> tuple[str, ...]:
    """The handed-out fields whose memory overlaps the storage of the target."""
    storage = stage.observe(operation.target).storage or ()
    places = [place for entry in storage if not hasattr(entry, "digest") and (place := capture.memory(entry))]
    found = []
    for name, value in handed.items():
        own = capture.memory(value)
        if own and any(own[0] < at + size and at < own[0] + own[1] for at, size in places):
            found.append(name)
    return tuple(found)


def _same_bits(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()


def _went_astray(record: StepRecord) -> bool:
    asked, allowed = record.operation.must_be_refused, record.operation.may_be_refused
    if isinstance(record.outcome, Errored):
        return not (asked or allowed) or not record.after
    if isinstance(record.outcome, RefusedCall):
        return not (asked or allowed)
    return asked
