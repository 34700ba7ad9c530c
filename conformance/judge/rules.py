"""One rule per kind of expectation. A rule yields what it saw; it never raises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.budget.units import unit_roundoff
from conformance.contract.fields import at_level
from conformance.judge import compare
from conformance.judge.findings import Check, Difference, Status
from conformance.player.records import (
    Buffer,
    CacheView,
    Errored,
    Playthrough,
    RefusedCall,
    Returned,
    StepRecord,
)
from conformance.trace.expect import (
    Accepted,
    Apart,
    Close,
    Declares,
    InputsKept,
    Length,
    Refused,
    Same,
    Shapes,
    Unchanged,
)

PASSED = Check("", "pass", "", -1, "")
"""What stands for every check that passed where only findings are asked for."""


@dataclass(slots=True)
class Sight:
    """One step of a playthrough with the declaration that it is judged by.

    findings_only: what passes is not told. measured: of what passes it is said how much of its bound it uses.
    """

    playthrough: Playthrough
    record: StepRecord
    declaration: Declaration
    findings_only: bool = False
    measured: bool = True

    def check(
        self, requirement: str, status: Status, message: str = "", *, difference: Difference | None = None
    ) -> Check:
        """A check of this step."""
        if self.findings_only and status == "pass":
            return PASSED
        return Check(
            requirement,
            status,
            self.playthrough.trace.id,
            self.record.index,
            self.record.place,
            message,
            difference,
        )

    @property
    def asked_refusal(self) -> bool:
        """Whether this step had to be refused."""
        return self.record.operation.must_be_refused

    @property
    def may_refuse(self) -> bool:
        """Whether this step may be refused."""
        return self.record.operation.may_be_refused

    def view(self, cache: str | None = None) -> CacheView | None:
        """The cache as it stood after the step."""
        operation = self.record.operation
        built = operation.op in ("fork", "twin", "build")
        default = str(operation.arguments.get("name", operation.target)) if built else operation.target
        name = cache or default
        # A store or session that was observed layer by layer is shown by its layer 0.
        return self.record.after.get(name) or self.record.after.get(f"{name}/0")

    def field(self, name: str) -> NDArray[Any] | None:
        """An array that the step handed out, or `keys` and `values` of the observed cache (`keys:NAME`)."""
        kind, _, cache = name.partition(":")
        if kind in ("keys", "values"):
            view = self.view(cache or None)
            return None if view is None else getattr(view, kind)
        outcome = self.record.outcome
        return outcome.fields.get(name) if isinstance(outcome, Returned) else None

    def missing(self, requirement: str, name: str) -> Check:
        """What to say of a field that is not there: a broken claim, or simply not to be seen."""
        if name.partition(":")[0] in ("keys", "values"):
            return self.check(requirement, "unobserved", f"{name} cannot be read")
        if name != "output" and not name.startswith("snapshot") and not self.shows_evidence:
            return self.check(requirement, "unobserved", f"{name} is not shown: evidence is not declared")
        if name.startswith("snapshot"):
            return self.check(
                requirement, "error", "the feature snapshot is declared, but nothing was handed out"
            )
        return self.check(
            requirement, "error", f"evidence is declared, but the step carries no {name}; set Step.{name}"
        )

    @property
    def shows_evidence(self) -> bool:
        """Whether the declaration promises the fields of a step."""
        return "evidence" in self.declaration.features


def close(sight: Sight, wanted: Close) -> Iterator[Check]:
    """Within the bound, the bound itself included."""
    seen = sight.field(wanted.field)
    if seen is None:
        yield sight.missing(wanted.requirement, wanted.field)
        return
    if seen.shape != wanted.value.shape:
        yield sight.check(
            wanted.requirement,
            "fail",
            f"{wanted.field} has shape {list(seen.shape)}, expected {list(wanted.value.shape)}",
        )
        return
    if seen.size == 0:
        yield sight.check(wanted.requirement, "pass")
        return
    if wanted.bound is None:
        raise AssertionError(f"{wanted.field}: no bound was computed for this declaration")
    if not sight.measured and _within(seen, wanted.value, wanted.bound):
        yield sight.check(wanted.requirement, "pass")
        return
    found = compare.worst(
        wanted.field, seen, wanted.value, wanted.bound, first_row=_first_row(sight, wanted.field)
    )
    status: Status = "pass" if found.share <= 1.0 else "fail"
    message = "" if status == "pass" else f"{wanted.field} is not the exact value within the bound"
    yield sight.check(wanted.requirement, status, message, difference=found)


def _within(seen: NDArray[Any], wanted: NDArray[Any], bound: float | NDArray[Any]) -> bool:
    """True where every element certainly keeps its bound, without saying by how much."""
    return bool(np.logical_and.reduce(np.abs(seen - wanted) <= bound, axis=None))


def _first_row(sight: Sight, field: str) -> int:
    """The absolute position of the first row of a field that an append handed out."""
    if field.partition(":")[0] in ("keys", "values") or field.startswith("snapshot"):
        return 0
    target = sight.record.operation.target
    before = sight.record.before.get(target) or sight.record.before.get(f"{target}/0")
    return before.length if before is not None and sight.record.operation.op != "full_prefix" else 0


def same(sight: Sight, wanted: Same) -> Iterator[Check]:
    """Bit for bit what an earlier step showed; within `bound` where not declared deterministic."""
    earlier = sight.playthrough.labelled(wanted.other)
    if earlier is None:
        yield sight.check(wanted.requirement, "unobserved", f"the step {wanted.other!r} was not played")
        return
    name, _, other_name = wanted.field.partition("=")
    seen = sight.field(name)
    other = Sight(sight.playthrough, earlier, sight.declaration).field(other_name or name)
    if seen is None or other is None:
        if name in ("output", "keys", "values") or not sight.shows_evidence:
            yield sight.check(wanted.requirement, "unobserved", f"{name} cannot be read")
        else:
            yield sight.missing(wanted.requirement, name)
        return
    seen, other = _part(seen, wanted.rows, wanted.lanes), _part(other, wanted.other_rows, wanted.other_lanes)
    if seen.shape != other.shape:
        yield sight.check(
            wanted.requirement,
            "fail",
            f"{name} has shape {list(seen.shape)}, at {wanted.other!r} it had {list(other.shape)}",
        )
    elif compare.same_bits(seen, other):
        yield sight.check(wanted.requirement, "pass")
    else:
        yield _differs(sight, wanted, name, seen, other)


def _differs(sight: Sight, wanted: Same, name: str, seen: NDArray[Any], other: NDArray[Any]) -> Check:
    found = compare.first_bit_difference(name, seen, other)
    if not sight.declaration.deterministic:
        bound = _repeated(sight, other) if wanted.bound is None else wanted.bound
        found = compare.worst(name, seen, other, bound)
        if found.share <= 1.0:
            return sight.check(wanted.requirement, "pass", "within the bound only", difference=found)
    return sight.check(
        wanted.requirement,
        "fail",
        f"{name} is not bit for bit what it was at {wanted.other!r}{compare.retyped(seen, other)}",
        difference=found,
    )


REPEATED_ROUNDINGS = 2.0**12
"""Roundings of the arithmetic by which two runs of one call may differ where no bound is given."""


def _repeated(sight: Sight, other: NDArray[Any]) -> float:
    """How far a run that is not repeatable may lie from an earlier one: 4.5e-13 of the largest in float64."""
    largest = float(np.nanmax(np.abs(other.astype(np.float64)), initial=1.0))
    return REPEATED_ROUNDINGS * unit_roundoff(sight.declaration.precision.arithmetic) * largest


def _part(given: NDArray[Any], rows: tuple[int, int] | None, lanes: tuple[int, ...] | None) -> NDArray[Any]:
    if rows is not None:
        given = given[..., rows[0] : rows[1], :]
    return given if lanes is None else given[list(lanes)]


def length(sight: Sight, wanted: Length) -> Iterator[Check]:
    """The observed length."""
    view = sight.view(wanted.cache)
    if view is None:
        yield sight.check(wanted.requirement, "unobserved", "the cache was not observed")
    elif view.length == wanted.rows:
        yield sight.check(wanted.requirement, "pass")
    else:
        yield sight.check(wanted.requirement, "fail", f"length is {view.length}, expected {wanted.rows}")


def shapes(sight: Sight, wanted: Shapes) -> Iterator[Check]:
    """Exact shapes, and for the output the declared dtype."""
    for name, shape in wanted.shapes.items():
        seen = sight.field(name)
        if seen is None:
            if name not in ("keys", "values") or sum(shape) == 0:
                yield sight.missing(wanted.requirement, name)
            else:
                yield sight.check(wanted.requirement, "unobserved", f"{name} cannot be read")
            continue
        dtype = sight.playthrough.trace.dtype
        if tuple(seen.shape) != tuple(shape):
            yield sight.check(
                wanted.requirement, "fail", f"{name} has shape {list(seen.shape)}, expected {list(shape)}"
            )
        elif name == "output" and dtype not in ("bfloat16", seen.dtype):
            yield sight.check(
                wanted.requirement, "fail", f"{name} has dtype {seen.dtype.name}, expected {dtype}"
            )
        else:
            yield sight.check(wanted.requirement, "pass")


def declares(sight: Sight, wanted: Declares) -> Iterator[Check]:
    """A declared figure."""
    outcome, view = sight.record.outcome, sight.view()
    owner, _, part = wanted.figure.partition(".")
    seen: Any = None
    if owner == "capacity":
        seen = None if view is None else view.capacity
    elif owner == "extra":
        seen = None if view is None else view.extra.get(part)
    elif isinstance(outcome, Returned):
        seen = outcome.length if owner == "length" else getattr(outcome.work, part, None)
    if seen is None:
        status: Status = "error" if owner == "work" else "unobserved"
        yield sight.check(wanted.requirement, status, f"{wanted.figure} is not given")
    elif seen == wanted.value:
        yield sight.check(wanted.requirement, "pass")
    else:
        yield sight.check(
            wanted.requirement, "fail", f"{wanted.figure} is declared as {seen}, expected {wanted.value}"
        )


def refused(sight: Sight, wanted: Refused) -> Iterator[Check]:
    """Refused with the right kind; what a rejection carries is judged where it carries it."""
    outcome = sight.record.outcome
    kinds = " or ".join(wanted.kinds)
    if isinstance(outcome, Errored):
        yield Check(
            wanted.requirement,
            "error",
            sight.playthrough.trace.id,
            sight.record.index,
            sight.record.place,
            f"expected a rejection of kind {kinds}, the adapter raised {outcome.message}; raise Rejected, or "
            f"map the exception in the declaration's rejections",
            None,
            outcome.detail,
        )
    elif isinstance(outcome, Returned):
        yield sight.check(wanted.requirement, "fail", f"accepted; it must be refused as {kinds}")
    elif outcome.kind not in wanted.kinds:
        yield sight.check(
            wanted.requirement, "fail", f"refused as {outcome.kind}, expected {kinds} ({outcome.message})"
        )
    else:
        yield sight.check(wanted.requirement, "pass")
        yield from _details(sight, wanted, outcome)


def _details(sight: Sight, wanted: Refused, outcome: RefusedCall) -> Iterator[Check]:
    filed = at_level("REJECT-DETAILS", sight.playthrough.trace.level)
    for name, value in wanted.details.items():
        carried = outcome.carried.get(name)
        if carried is None:
            yield sight.check(filed, "unobserved", f"{name} is not carried")
        elif _equal(carried, value):
            yield sight.check(filed, "pass")
        else:
            yield sight.check(
                filed,
                "fail",
                f"{outcome.kind} carries {name} {carried!r}, the first offence has {value!r}",
            )


def _equal(carried: Any, value: Any) -> bool:
    """Equal, or both NaN."""
    both_nan = isinstance(carried, float) and isinstance(value, float) and isnan(carried) and isnan(value)
    return bool(both_nan or carried == value)


def accepted(sight: Sight, wanted: Accepted) -> Iterator[Check]:
    """The control beside a refusal: this call must succeed."""
    ok = isinstance(sight.record.outcome, Returned)
    yield sight.check(wanted.requirement, "pass" if ok else "fail", "" if ok else "this call must succeed")


def unchanged(sight: Sight, wanted: Unchanged) -> Iterator[Check]:
    """Nothing of a cache has changed over the step."""
    if sight.asked_refusal and isinstance(sight.record.outcome, Returned):
        for name in filter(None, (wanted.length, wanted.rows, wanted.storage, wanted.addresses)):
            yield sight.check(name, "unobserved", "the call was accepted, so no refusal could be seen")
        return
    before, after = sight.record.before.get(wanted.cache), sight.record.after.get(wanted.cache)
    if before is None or after is None:
        for name in filter(None, (wanted.length, wanted.rows, wanted.storage, wanted.addresses)):
            yield sight.check(name, "unobserved", f"{wanted.cache} was not observed before and after")
        return
    if wanted.length:
        ok = before.length == after.length
        message = "" if ok else f"length went from {before.length} to {after.length}{_by_raising(sight)}"
        yield sight.check(wanted.length, "pass" if ok else "fail", message)
    if wanted.capacity:
        ok = before.capacity == after.capacity
        message = "" if ok else f"capacity went from {before.capacity} to {after.capacity}"
        yield sight.check(wanted.capacity, "pass" if ok else "fail", message)
    if wanted.rows:
        yield from _rows_kept(sight, wanted.rows, before, after)
    if wanted.storage or wanted.addresses:
        yield from _storage_kept(sight, wanted, before, after)


def _by_raising(sight: Sight) -> str:
    """What to add where the change is that of a call which raised."""
    outcome = sight.record.outcome
    return f"; the call raised {outcome.message:.80}" if isinstance(outcome, Errored) else ""


def _rows_kept(sight: Sight, requirement: str, before: CacheView, after: CacheView) -> Iterator[Check]:
    for name in ("keys", "values"):
        was, now = getattr(before, name), getattr(after, name)
        if was is None or now is None:
            yield sight.check(requirement, "unobserved", f"{name} cannot be read")
        elif compare.same_bits(now, was):
            yield sight.check(requirement, "pass")
        elif now.shape != was.shape:
            yield sight.check(
                requirement, "fail", f"{name} went from shape {list(was.shape)} to {list(now.shape)}"
            )
        else:
            found = compare.first_bit_difference(name, now, was)
            message = f"{name} were changed{compare.retyped(now, was)}{_by_raising(sight)}"
            yield sight.check(requirement, "fail", message, difference=found)


def _storage_kept(sight: Sight, wanted: Unchanged, before: CacheView, after: CacheView) -> Iterator[Check]:
    asked = tuple(filter(None, (wanted.storage, wanted.addresses)))
    if before.storage is None or after.storage is None:
        for name in asked:
            yield sight.check(name, "unobserved", "storage cannot be seen")
        return
    if len(before.storage) != len(after.storage):
        for name in asked:
            yield sight.check(
                name, "fail", f"storage went from {len(before.storage)} buffers to {len(after.storage)}"
            )
        return
    for number, (was, now) in enumerate(zip(before.storage, after.storage, strict=True)):
        if wanted.addresses:
            ok = was.address == now.address and was.nbytes == now.nbytes
            message = "" if ok else f"buffer {number} was replaced: another address or size"
            yield sight.check(wanted.addresses, "pass" if ok else "fail", message)
        if wanted.storage:
            yield _bytes_kept(sight, wanted.storage, number, was, now)


def _bytes_kept(sight: Sight, requirement: str, number: int, was: Buffer, now: Buffer) -> Check:
    left, right = _bytes_of(was), _bytes_of(now)
    if left == right:
        return sight.check(requirement, "pass")
    where = ""
    if was.data is not None and now.data is not None and was.data.shape == now.data.shape:
        pairs = enumerate(zip(left, right, strict=False))
        element = next(at for at, (old, new) in pairs if old != new) // was.data.itemsize
        where = f", first at element {[int(i) for i in np.unravel_index(element, was.data.shape)]}"
    return sight.check(requirement, "fail", f"bytes of buffer {number} were changed{where}")


def _bytes_of(entry: Buffer) -> bytes | str:
    """The stored bytes, or their digest where a driver keeps them to itself."""
    return entry.digest or b"" if entry.data is None else entry.data.tobytes()


def inputs_kept(sight: Sight, wanted: InputsKept) -> Iterator[Check]:
    """The caller's arrays are as they were."""
    changed = sight.record.changed_inputs
    message = f"the call changed the caller's {', '.join(changed)}" if changed else ""
    yield sight.check(wanted.requirement, "fail" if changed else "pass", message)


def apart(sight: Sight, wanted: Apart) -> Iterator[Check]:
    """Nothing handed out shares memory with storage."""
    outcome, view = sight.record.outcome, sight.view(wanted.cache)
    if not isinstance(outcome, Returned) or view is None or view.storage is None:
        yield sight.check(wanted.requirement, "unobserved", "storage cannot be seen")
    elif outcome.aliases:
        yield sight.check(wanted.requirement, "fail", f"{', '.join(outcome.aliases)} is a view of storage")
    else:
        yield sight.check(wanted.requirement, "pass")
