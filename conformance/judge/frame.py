"""What every accepted append must leave alone, whatever the trace expects of it.

Filed under the STORE family. Rules that need storage are skipped where the implementation declares none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.contract.fields import at_level
from conformance.judge import compare
from conformance.judge.findings import Check
from conformance.judge.rules import Sight
from conformance.player.records import Buffer, CacheView, Returned


def appended(sight: Sight) -> Iterator[Check]:
    """The frame of an accepted append, for every cache that was observed before and after."""
    operation = sight.record.operation
    outcome, name = sight.record.outcome, operation.target
    if "layer" in operation.arguments:
        name = f"{name}/{operation.arguments['layer']}"
    before, after = sight.record.before.get(name), sight.record.after.get(name)
    if not isinstance(outcome, Returned) or before is None or after is None:
        return
    yield from _earlier_rows(sight, before, after)
    if after.length <= before.length:
        return
    yield from _row_bits(sight, outcome, before, after)
    if "storage" in sight.declaration.features and sight.declaration.capacity != "growing":
        yield from _storage(sight, before, after)


def decoded(sight: Sight) -> Iterator[Check]:
    """The frame of an accepted prefill or decode, for every layer that was observed before and after."""
    target = sight.record.operation.target
    if not isinstance(sight.record.outcome, Returned):
        return
    for name, before in sight.record.before.items():
        after = sight.record.after.get(name)
        if name.partition("/")[0] != target or after is None:
            continue
        yield from _earlier_rows(sight, before, after)
        if "storage" in sight.declaration.features and sight.declaration.capacity != "growing":
            yield from _addresses(sight, before, after)


def _earlier_rows(sight: Sight, before: CacheView, after: CacheView) -> Iterator[Check]:
    filed = at_level("STORE-EARLIER-ROWS", sight.playthrough.trace.level)
    for name in ("keys", "values"):
        was, now = getattr(before, name), getattr(after, name)
        if now is None or (was is None and before.length):
            yield sight.check(filed, "unobserved", f"{name} cannot be read")
            continue
        if not before.length:
            continue
        kept = now[..., : before.length, :] if now.ndim >= 2 else now
        if compare.same_bits(kept, was):
            yield sight.check(filed, "pass")
        elif kept.shape != was.shape:
            yield sight.check(
                filed,
                "fail",
                f"{name} of the earlier rows went from shape {list(was.shape)} to {list(kept.shape)}",
            )
        else:
            found = compare.first_bit_difference(name, kept, was)
            message = f"the call changed {name} of an earlier row{compare.retyped(kept, was)}"
            yield sight.check(filed, "fail", message, difference=found)


def _row_bits(sight: Sight, outcome: Returned, before: CacheView, after: CacheView) -> Iterator[Check]:
    """The stored rows against the candidates: shown as evidence by a layer, elsewhere handed in."""
    inputs, fields = sight.record.operation.inputs, outcome.fields
    level = sight.playthrough.trace.level
    precision, dtype = sight.declaration.precision, sight.playthrough.trace.dtype
    if level != "layer" and dtype != precision.storage:
        reason = f"rows are fed as {dtype} and declared to be stored as {precision.storage}"
        yield sight.check("STORE-ROW-BITS", "unobserved", reason)
        return
    if level == "layer":
        candidate_keys = fields.get("rotated_key" if sight.declaration.keys == "rotated" else "key")
        candidates = {"keys": candidate_keys, "values": fields.get("value")}
    elif level == "attention":
        candidates = {"keys": inputs["key"], "values": inputs["value"]}
    else:
        candidates = {"keys": inputs["keys"], "values": inputs["values"]}
    for name, candidate in candidates.items():
        now = getattr(after, name)
        if now is None or candidate is None:
            yield sight.check("STORE-ROW-BITS", "unobserved", f"{name} or their candidates cannot be read")
            continue
        stored = now[..., before.length : after.length, :] if now.ndim >= 2 else now
        stored, wanted = _as_declared(stored, candidate, precision.storage)
        if compare.same_bits(stored, wanted):
            yield sight.check("STORE-ROW-BITS", "pass")
        elif stored.shape != wanted.shape:
            yield sight.check(
                "STORE-ROW-BITS",
                "fail",
                f"the new {name} have shape {list(stored.shape)}, the candidates {list(wanted.shape)}",
            )
        else:
            found = compare.first_bit_difference(name, stored, wanted, first_row=before.length)
            yield sight.check(
                "STORE-ROW-BITS", "fail", f"the stored {name} are not the candidate rows", difference=found
            )


def _as_declared(
    stored: NDArray[Any], candidate: NDArray[Any], declared: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Stored rows and candidates in one dtype; a candidate is rounded to the declared one and no further."""
    if stored.dtype.kind != "f" or declared == "bfloat16":
        return stored, np.asarray(candidate, dtype=stored.dtype)
    if stored.dtype == declared == candidate.dtype:
        return stored, candidate
    wide = np.promote_types(stored.dtype, declared)
    return stored.astype(wide), np.asarray(candidate).astype(declared).astype(wide)


def _addresses(sight: Sight, before: CacheView, after: CacheView) -> Iterator[Check]:
    filed = at_level("STORE-ADDRESSES", sight.playthrough.trace.level)
    if before.storage is None or after.storage is None:
        yield sight.check(filed, "error", "storage is declared, but Observation.storage is None")
        return
    same_number = len(before.storage) == len(after.storage)
    pairs = list(zip(before.storage, after.storage, strict=False))
    moved = [
        i for i, (was, now) in enumerate(pairs) if was.address != now.address or was.nbytes != now.nbytes
    ]
    if moved or not same_number:
        what = f"buffer {moved[0]} is at another address" if moved else "the number of buffers changed"
        yield sight.check(filed, "fail", f"the call replaced storage: {what}")
    else:
        yield sight.check(filed, "pass")


def _storage(sight: Sight, before: CacheView, after: CacheView) -> Iterator[Check]:
    yield from _addresses(sight, before, after)
    level = sight.playthrough.trace.level
    if level not in ("layer", "attention") or before.storage is None or after.storage is None:
        return
    if len(before.storage) != len(after.storage):
        return
    pairs = list(zip(before.storage, after.storage, strict=True))
    for number, (was, now) in enumerate(pairs):
        yield _later_slots(sight, f"buffer {number}", _slots(was, after), _slots(now, after), before)
    if level == "layer" and len(after.storage) == 2:
        yield from _row_major(sight, after)


def _slots(entry: Buffer, view: CacheView) -> NDArray[Any] | None:
    """A buffer as [lanes * heads, C, d], where its size allows that reading."""
    shown = view.keys if view.keys is not None else view.values
    if entry.data is None or shown is None or shown.ndim != 4 or not view.capacity:
        return None
    lanes, heads = shown.shape[:2]
    rows = lanes * heads * view.capacity
    if not rows or entry.data.size % rows:
        return None
    return entry.data.reshape(lanes * heads, view.capacity, entry.data.size // rows)


def _later_slots(
    sight: Sight, name: str, was: NDArray[Any] | None, now: NDArray[Any] | None, before: CacheView
) -> Check:
    after = sight.record.after[sight.record.operation.target].length
    if was is None or now is None or was.shape != now.shape:
        return sight.check("STORE-LATER-SLOTS", "unobserved", f"{name} cannot be read slot by slot")
    left, right = was[:, after:], now[:, after:]
    if compare.same_bits(left, right):
        return sight.check("STORE-LATER-SLOTS", "pass")
    left, right = (np.ascontiguousarray(part).view(np.uint8) for part in (left, right))
    slot = after + int(np.argmax((left != right).any(axis=(0, 2))))
    message = f"an append of rows {before.length} to {after - 1} wrote slot {slot} of {name}"
    return sight.check("STORE-LATER-SLOTS", "fail", message)


def _row_major(sight: Sight, after: CacheView) -> Iterator[Check]:
    for entry, name in zip(after.storage or (), ("keys", "values"), strict=False):
        logical, slots = getattr(after, name), _slots(entry, after)
        if logical is None or slots is None or logical.ndim != 4:
            yield sight.check("STORE-ROW-MAJOR", "unobserved", f"{name} cannot be read slot by slot")
            continue
        lanes, heads, rows, width = logical.shape
        wanted = logical.reshape(lanes * heads, rows, width)
        if slots.shape[2] == width and compare.same_bits(slots[:, :rows], wanted):
            yield sight.check("STORE-ROW-MAJOR", "pass")
        else:
            yield sight.check(
                "STORE-ROW-MAJOR", "fail", f"the {name} do not stand at ((b*G + h)*C + p)*d of their buffer"
            )
