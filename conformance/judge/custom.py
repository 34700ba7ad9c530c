"""Rules that only code can say, by the name under which a trace calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from conformance.judge import compare
from conformance.judge.decoding import DECODING
from conformance.judge.findings import Check
from conformance.judge.pools import POOL_RULES
from conformance.judge.rules import Sight, close
from conformance.player.records import RefusedCall, Returned
from conformance.trace.expect import Close, Custom


def refused_or_close(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """Refused, or right: what it must not do is to answer from a mixture of old and new."""
    if isinstance(sight.record.outcome, RefusedCall):
        yield sight.check(wanted.requirement, "pass", f"refused as {sight.record.outcome.kind}")
        return
    arguments = wanted.arguments
    yield from close(
        sight, Close(wanted.requirement, arguments["field"], arguments["value"], arguments["bound"])
    )


def refused_or_unchanged(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """Refused with one of the kinds, or taken as nothing: no output row; the length (of `cache`) stays."""
    outcome = sight.record.outcome
    kinds, target = wanted.arguments["kinds"], wanted.arguments.get("cache", sight.record.operation.target)
    if isinstance(outcome, RefusedCall):
        message = "" if outcome.kind in kinds else f"refused as {outcome.kind}, expected {' or '.join(kinds)}"
        yield sight.check(wanted.requirement, "fail" if message else "pass", message)
        return
    before, after = sight.record.before.get(target), sight.record.after.get(target)
    output = sight.field("output")
    if before is None or after is None:
        yield sight.check(wanted.requirement, "unobserved", "the cache was not observed before and after")
    elif before.length != after.length:
        message = f"accepted, and the length went from {before.length} to {after.length}"
        yield sight.check(wanted.requirement, "fail", message)
    elif output is not None and output.size:
        yield sight.check(
            wanted.requirement, "fail", f"no row went in, an output {list(output.shape)} came out"
        )
    else:
        yield sight.check(wanted.requirement, "pass", "taken as nothing")


def two_buffers(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """Two buffers [B,G,C,d]."""
    view = sight.view()
    if view is None or view.storage is None:
        yield sight.check(wanted.requirement, "error", "storage is declared, but Observation.storage is None")
        return
    shape = tuple(wanted.arguments["shape"])
    if len(view.storage) != 2:
        yield sight.check(wanted.requirement, "fail", f"storage is {len(view.storage)} buffers, expected 2")
        return
    for number, entry in enumerate(view.storage):
        if entry.data is None:
            ok = entry.elements == int(np.prod(shape))
            yield sight.check(
                wanted.requirement, "pass" if ok else "fail", "" if ok else f"{entry.elements} elements"
            )
        elif entry.data.shape == shape:
            yield sight.check(wanted.requirement, "pass")
        else:
            yield sight.check(
                wanted.requirement,
                "fail",
                f"buffer {number} has shape {list(entry.data.shape)}, expected {list(shape)}",
            )


def storage_total(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """The number of stored elements."""
    view = sight.view()
    if view is None or view.storage is None:
        yield sight.check(wanted.requirement, "error", "storage is declared, but Observation.storage is None")
        return
    total, expected = sum(entry.elements for entry in view.storage), wanted.arguments["elements"]
    message = "" if total == expected else f"storage holds {total} elements, expected {expected}"
    yield sight.check(wanted.requirement, "fail" if message else "pass", message)


def zero_filled(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """+0.0 in every element: all bytes zero."""
    view = sight.view()
    if view is None or view.storage is None:
        yield sight.check(wanted.requirement, "error", "storage is declared, but Observation.storage is None")
        return
    for number, entry in enumerate(view.storage):
        if entry.data is None:
            yield sight.check(wanted.requirement, "unobserved", f"buffer {number} cannot be read")
        elif any(entry.data.tobytes()):
            yield sight.check(
                wanted.requirement, "fail", f"buffer {number} of a new cache is not +0.0 everywhere"
            )
        else:
            yield sight.check(wanted.requirement, "pass")


def moves_as_formula(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """The next output after one stored value row was changed from outside."""
    write = sight.playthrough.labelled(wanted.arguments["write"])
    if write is None or not isinstance(write.outcome, Returned) or "written" not in write.outcome.fields:
        yield sight.check(wanted.requirement, "unobserved", "the storage that is shown cannot be written")
        return
    seen = sight.field("output")
    moved, unmoved, bound = (wanted.arguments[name] for name in ("value", "unmoved", "bound"))
    if compare.worst("output", moved, unmoved, bound).share <= 2.0:
        yield sight.check(wanted.requirement, "unobserved", "the changed row has no weight that could show")
        return
    if seen is not None and seen.shape == unmoved.shape:
        still = compare.worst("output", seen, unmoved, bound)
        if still.share <= 1.0:
            yield sight.check(
                wanted.requirement,
                "fail",
                "a stored value row was changed and the next output did not move: stored rows are not read",
                difference=compare.worst("output", seen, moved, bound),
            )
            return
    yield from close(sight, Close(wanted.requirement, "output", moved, bound))


def agrees_with_own(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """The cached outputs so far against the implementation's own full-prefix pass at this step."""
    seen = sight.field("output")
    if seen is None:
        yield sight.missing(wanted.requirement, "output")
        return
    rows = []
    for label in wanted.arguments["steps"]:
        record = sight.playthrough.labelled(label)
        if record is None or not isinstance(record.outcome, Returned):
            yield sight.check(wanted.requirement, "unobserved", f"the step {label!r} was not played")
            return
        rows.append(record.outcome.fields["output"])
    rule = np.shape(wanted.arguments["bound"])
    fits = all(row.ndim == 3 and (len(row), row.shape[2]) == (rule[0], rule[2]) for row in rows)
    if seen.shape != rule or not fits or sum(row.shape[1] for row in rows) != rule[1]:
        shapes = ", ".join(str(list(row.shape)) for row in rows)
        yield sight.check(
            wanted.requirement,
            "fail",
            f"full_prefix returned shape {list(seen.shape)}, the cached outputs have {shapes}",
        )
        return
    cached = np.concatenate(rows, axis=1)
    found = compare.worst("output", cached, seen, wanted.arguments["bound"])
    message = "" if found.share <= 1.0 else "the cached path and the implementation's own full pass disagree"
    yield sight.check(wanted.requirement, "fail" if message else "pass", message, difference=found)


def work_total(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """Declared work summed over steps, and full = incremental + reused."""
    full = incremental = reused = 0
    for label in wanted.arguments["steps"]:
        record = sight.playthrough.labelled(label)
        work = record.outcome.work if record is not None and isinstance(record.outcome, Returned) else None
        if work is None:
            yield sight.check(
                wanted.requirement, "error", "the feature work is declared, but Step.work is None"
            )
            return
        full, incremental = full + work.full_prefix_rows, incremental + work.incremental_rows
        reused += work.reused_rows
    shown = {"full": full, "incremental": incremental, "reused": reused, "avoided": 2 * (full - incremental)}
    expected = dict(wanted.arguments["totals"])
    ok = shown == expected and full == incremental + reused
    message = "" if ok else f"declared work totals {shown}, expected {expected}"
    yield sight.check(wanted.requirement, "pass" if ok else "fail", message)


RULES: Mapping[str, Callable[[Sight, Custom], Iterator[Check]]] = POOL_RULES | {
    rule.__name__: rule
    for rule in (
        refused_or_close,
        refused_or_unchanged,
        two_buffers,
        storage_total,
        zero_filled,
        moves_as_formula,
        agrees_with_own,
        work_total,
        *DECODING,
    )
}
