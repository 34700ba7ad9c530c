"""Rules of level decoder that only code can say; `custom` lists them with the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.budget.decoder import SELF_ROUNDINGS
from conformance.budget.units import unit_roundoff
from conformance.judge import compare
from conformance.judge.findings import NOT_ASKED, Check
from conformance.judge.rules import Sight
from conformance.player.records import Buffer, CacheView, Returned
from conformance.trace.expect import Custom


def own_gate(declaration: Declaration, logits: NDArray[Any]) -> float:
    """How far two streams of logits of one decoder may lie apart, whatever its formulas."""
    largest = float(np.nanmax(np.abs(logits.astype(np.float64)), initial=1.0))
    return SELF_ROUNDINGS * unit_roundoff(declaration.precision.arithmetic) * max(1.0, largest)


def cached_stream_agrees(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """The logits of `steps` (prefill, then decodes) against this full-prefix pass of the same tokens.

    bound: of the shape of the logits, or None for the gate of a decoder against itself, which is printed.
    """
    seen = sight.field("output")
    if seen is None or seen.ndim != 3:
        yield sight.check(wanted.requirement, "fail", "the full-prefix pass gave no logits [B,T,V]")
        return
    parts = []
    for label in wanted.arguments["steps"]:
        record = sight.playthrough.labelled(label)
        if record is None or not isinstance(record.outcome, Returned):
            yield sight.check(wanted.requirement, "unobserved", f"the step {label!r} was not played")
            return
        parts.append(record.outcome.fields["output"])
    fits = all(part.ndim == 3 and (len(part), part.shape[2]) == (len(seen), seen.shape[2]) for part in parts)
    cached = np.concatenate(parts, axis=1) if fits else None
    if cached is None or cached.shape[1] > seen.shape[1]:
        shapes = [list(part.shape) for part in parts]
        message = f"the full-prefix pass gave logits {list(seen.shape)}, the cached calls {shapes}"
        yield sight.check(wanted.requirement, "fail", message)
        return
    # A prefill that hands out its last row alone leaves the first rows of the pass without a counterpart.
    first = seen.shape[1] - cached.shape[1]
    given = wanted.arguments.get("bound")
    if given is not None and np.shape(given) != seen.shape:
        message = f"the full-prefix pass gave logits {list(seen.shape)}, expected {list(np.shape(given))}"
        yield sight.check(wanted.requirement, "fail", message)
        return
    bound = own_gate(sight.declaration, seen) if given is None else np.asarray(given)[:, first:]
    found = compare.worst("output", cached, seen[:, first:], bound, first_row=first)
    if found.share <= 1.0:
        gap = f"largest gap {found.difference:.3g}, gate {found.bound:.3g}"
        yield sight.check(wanted.requirement, "pass", gap, difference=found)
    else:
        message = "the cached path and the implementation's own full pass disagree"
        yield sight.check(wanted.requirement, "fail", message, difference=found)


def lanes_as(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """Lanes of this step are those `own` of an earlier step, within the bound; None as above."""
    earlier = sight.playthrough.labelled(wanted.arguments["other"])
    if earlier is None or not isinstance(earlier.outcome, Returned):
        yield sight.check(wanted.requirement, "unobserved", "the other step was not played")
        return
    seen, other = sight.field("output"), earlier.outcome.fields.get("output")
    if seen is None or other is None or seen.shape != other.shape:
        yield sight.check(wanted.requirement, "fail", "the logits cannot be compared: their shapes differ")
        return
    lanes, own = (list(wanted.arguments[name]) for name in ("lanes", "own"))
    bound = wanted.arguments.get("bound")
    if len(seen) <= max((*lanes, *own)) or (bound is not None and np.shape(bound) != seen.shape):
        message = f"lanes cannot be told in logits of shape {list(seen.shape)}"
        yield sight.check(wanted.requirement, "fail", message)
        return
    gate = own_gate(sight.declaration, other) if bound is None else np.asarray(bound)[lanes]
    found = compare.worst("output", seen[lanes], other[own], gate)
    message = "" if found.share <= 1.0 else "a lane follows what stands in another lane"
    yield sight.check(wanted.requirement, "fail" if message else "pass", message, difference=found)


def not_asked(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """What cannot be asked of this declaration, and the reason."""
    unseen = sight.check(wanted.requirement, "unobserved", str(wanted.arguments["reason"]))
    yield replace(unseen, kind=NOT_ASKED)


def chooses(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """The largest logit of the last row of each lane is that of the expected token."""
    seen = sight.field("output")
    if seen is None or seen.ndim != 3 or not seen.shape[1]:
        yield sight.check(wanted.requirement, "fail", "there are no logits to choose from")
        return
    chosen = [int(token) for token in np.argmax(seen[:, -1], axis=-1)]
    expected = [int(token) for token in wanted.arguments["tokens"]]
    message = "" if chosen == expected else f"greedy chooses {chosen}, complete-prefix passes {expected}"
    yield sight.check(wanted.requirement, "fail" if message else "pass", message)


def layers_apart(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """No buffer of one layer overlaps a buffer of another."""
    names = list(wanted.arguments["layers"])
    places: list[tuple[str, Buffer]] = []
    for name in names:
        view = sight.record.after.get(name)
        if view is None or view.storage is None:
            text = f"storage is declared, but {name} shows none"
            yield sight.check(wanted.requirement, "error", text)
            return
        places += [(name, entry) for entry in view.storage]
    for index, (name, entry) in enumerate(places):
        for other, earlier in places[:index]:
            if other != name and _overlap(entry, earlier):
                message = f"{name} and {other} share storage"
                yield sight.check(wanted.requirement, "fail", message)
                return
    yield sight.check(wanted.requirement, "pass")


def _overlap(left: Buffer, right: Buffer) -> bool:
    if isinstance(left.address, int) and isinstance(right.address, int):
        return left.address < right.address + right.nbytes and right.address < left.address + left.nbytes
    return left.address == right.address


def counts(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """The work counts that the session shows are exactly these."""
    shown = _work(sight.view())
    if shown is None:
        message = "the feature work is declared, but Observation.extra['work'] holds no counts"
        yield sight.check(wanted.requirement, "error", message)
        return
    expected = dict(wanted.arguments["counts"])
    wrong = {name: (shown.get(name), value) for name, value in expected.items() if shown.get(name) != value}
    said = ", ".join(f"{name} is {was}, expected {value}" for name, (was, value) in wrong.items())
    yield sight.check(wanted.requirement, "fail" if wrong else "pass", said)


def counts_kept(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """The work counts are what they were before the call."""
    target = sight.record.operation.target
    before = sight.record.before.get(target) or sight.record.before.get(f"{target}/0")
    was, now = _work(before), _work(sight.view())
    if was is None or now is None:
        yield sight.check(wanted.requirement, "unobserved", "no work counts are shown")
        return
    message = "" if was == now else f"work counts went from {was} to {now}"
    yield sight.check(wanted.requirement, "fail" if message else "pass", message)


def _work(view: CacheView | None) -> dict[str, Any] | None:
    shown = None if view is None else view.extra.get("work")
    return dict(shown) if isinstance(shown, Mapping) else None


DECODING = (cached_stream_agrees, lanes_as, not_asked, chooses, layers_apart, counts, counts_kept)
