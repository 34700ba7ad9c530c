"""An example of a failure: an observation of an embedded implementation, spoiled until the rule is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from conformance.judge import Check, judge
from conformance.player import Buffer, CacheView, Playthrough, RefusedCall, Returned, StepRecord, play
from conformance.trace.model import Trace

TRIED = 4
"""Traces in which an example is looked for."""

SPOILED_BY = 1.0 / 1024


def example(requirement: str, adapter: Any, traces: Iterable[Trace]) -> Check | None:
    """A finding under `requirement` as it would read, or None where no spoiled observation breaks it.

    Where traces name the requirement only those are played; else it is one that is watched everywhere.
    """
    everything = list(traces)
    naming = [trace for trace in everything if requirement in trace.requirements()]
    tried = 0
    for trace in naming or everything:
        playthrough = play(trace, adapter)
        judged = [c.step for c in judge(playthrough, adapter.declaration) if c.requirement == requirement]
        tried += bool(judged)
        for step in reversed(dict.fromkeys(judged)):
            for spoiled in _spoiled(playthrough.records[step]):
                found = _finding(requirement, playthrough, spoiled, adapter)
                if found is not None:
                    return found
        if tried == TRIED:
            break
    return None


def _finding(requirement: str, playthrough: Playthrough, spoiled: StepRecord, adapter: Any) -> Check | None:
    """What the judge says of the spoiled step; the others stand there for it to look back at, unjudged."""
    records = tuple(spoiled if r.index == spoiled.index else _silent(r) for r in playthrough.records)
    checks = judge(replace(playthrough, records=records), adapter.declaration)
    return next((c for c in checks if c.requirement == requirement and c.status == "fail"), None)


def _silent(record: StepRecord) -> StepRecord:
    return replace(record, operation=replace(record.operation, op="observe", expect=()))


def _spoiled(record: StepRecord) -> Iterator[StepRecord]:
    """The record with one thing wrong at a time, the likeliest first."""
    outcome = record.outcome
    if isinstance(outcome, RefusedCall):
        yield replace(
            record, outcome=replace(outcome, kind="non_finite" if outcome.kind != "non_finite" else "full")
        )
        yield replace(record, outcome=replace(outcome, carried=dict.fromkeys(outcome.carried, -1)))
    if isinstance(outcome, Returned):
        yield from (replace(record, outcome=o) for o in _outcomes(outcome))
    for change in (_moved_rows, _moved_length, _moved_bytes, _moved_address, _moved_capacity):
        yield replace(record, after={name: change(view) for name, view in record.after.items()})
    yield replace(record, changed_inputs=tuple(record.operation.inputs))
    if isinstance(outcome, Returned):
        yield replace(record, outcome=RefusedCall("full", "as if the cache had no room"))


def _outcomes(outcome: Returned) -> Iterator[Any]:
    fields = outcome.fields
    yield replace(outcome, fields={name: _moved(value) for name, value in fields.items()})
    if outcome.work is not None:
        work = outcome.work
        yield replace(outcome, work=replace(work, incremental_rows=work.incremental_rows + 1))
        yield replace(outcome, work=replace(work, reused_rows=work.reused_rows + 1))
    yield replace(outcome, fields={name: value[..., :-1] for name, value in fields.items()})
    yield replace(outcome, aliases=tuple(fields))


def _moved(array: Any) -> Any:
    """The array with its last element a little off."""
    changed = array.copy()
    if changed.size:
        changed.reshape(-1)[-1] += SPOILED_BY
    return changed


def _moved_rows(view: CacheView) -> CacheView:
    keys, values = (None if a is None else a + SPOILED_BY for a in (view.keys, view.values))
    return replace(view, keys=keys, values=values)


def _moved_length(view: CacheView) -> CacheView:
    return replace(view, length=view.length + 1)


def _moved_capacity(view: CacheView) -> CacheView:
    return replace(view, capacity=(view.capacity or 0) + 1)


def _each_buffer(view: CacheView, change: Callable[[Buffer], Buffer]) -> CacheView:
    return view if view.storage is None else replace(view, storage=tuple(change(b) for b in view.storage))


def _moved_bytes(view: CacheView) -> CacheView:
    def change(buffer: Buffer) -> Buffer:
        data = None if buffer.data is None else _moved(buffer.data)
        return replace(buffer, data=data, digest="another digest")

    return _each_buffer(view, change)


def _moved_address(view: CacheView) -> CacheView:
    return _each_buffer(view, lambda buffer: replace(buffer, address="another address"))
