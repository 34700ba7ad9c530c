"""What a playthrough shows, as values that can be compared bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.player import Playthrough
from conformance.player.records import CacheView, Outcome, Returned
from conformance.trace.expect import Custom, Same

Seen = tuple[Any, ...]
"""Everything that a judge may look at in one step, as values that can be compared."""


def seen(playthrough: Playthrough) -> Iterator[Seen]:
    """Each step as values. Addresses are told apart by when each was seen first."""
    places: dict[Any, int] = {}
    views: dict[int, Seen] = {}
    for record in playthrough.records:
        shown = tuple(
            (name, views.get(id(view)) or views.setdefault(id(view), _view(view, places)))
            for side in (record.before, record.after)
            for name, view in side.items()
        )
        yield _outcome(record.outcome), len(record.before), shown, record.changed_inputs


def _outcome(outcome: Outcome) -> Seen:
    if not isinstance(outcome, Returned):
        return (outcome,)
    fields = tuple((name, _array(value)) for name, value in outcome.fields.items())
    return fields, outcome.length, outcome.work, outcome.aliases


def _view(view: CacheView, places: dict[Any, int]) -> Seen:
    storage: Seen = tuple(
        (places.setdefault(b.address, len(places)), b.digest, b.elements, b.nbytes, _array(b.data))
        for b in view.storage or ()
    )
    shown = _array(view.keys), _array(view.values), view.storage is None, storage
    return view.length, view.capacity, *shown, dict(view.extra)


def _array(given: Any) -> Any:
    return given if given is None else (given.shape, given.dtype, given.tobytes())


def known_steps(playthrough: Playthrough, passed: tuple[Seen, ...]) -> Iterator[int]:
    """The steps that show bit for bit what has passed already, and are judged by nothing else."""
    apart = False
    pairs = zip(playthrough.records, seen(playthrough), passed, strict=False)
    for record, mine, other in pairs:
        if mine != other:
            apart = True
        elif not apart or not any(isinstance(e, Same | Custom) for e in record.operation.expect):
            yield record.index
