"""Expectations in short: what `sequence`, `expect`, `rejected`, `unchanged`, `replays` stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.contract.fields import REQUIREMENT_OF_FIELD, REQUIREMENT_OF_KIND, UNCHANGED, at_level
from conformance.trace.exact_numbers import Rows, handed_number
from conformance.trace.expect import (
    Accepted,
    Close,
    Declares,
    Expectation,
    Length,
    Refused,
    Same,
    Shapes,
    Unchanged,
)
from conformance.trace.yaml_arrays import FIELD_REFERENCE, read_array, read_range, sliced, time_axis
from conformance.trace.yaml_cursor import Cursor
from conformance.trace.yaml_expect import DETAILS, read_kinds, read_requirement
from conformance.trace.yaml_sequences import Sequence
from conformance.trace.yaml_tree import short
from conformance.values import STEP_ARRAYS, Work

EXPECTED_ARRAYS = (*STEP_ARRAYS, "keys", "values")
EXPECTED = ("length", "capacity", "storage", "work", *EXPECTED_ARRAYS)
"""The keys of `expect`."""
WORK = tuple(Work.__dataclass_fields__)


@dataclass(frozen=True)
class Shorthand:
    """Reads the short forms of one step.

    observed: the cache that the step is judged by, with the layer (`main/1`) where the step names one.
    override: the requirement that everything is filed under, "" where each part has its own.
    """

    given: Mapping[str, Cursor]
    op: str
    level: str
    target: str
    observed: str
    sequences: Mapping[str, Sequence]
    bound: float | None
    numbers: Rows
    override: str = ""

    def read(self, part: tuple[Sequence, int, int] | None, replayed: str) -> Iterator[Expectation]:
        """Every expectation of the step; `part` are the rows of a sequence that it appends."""
        refused = "rejected" in self.given
        expected = self.given["expect"].fields((), EXPECTED) if "expect" in self.given else {}
        if refused:
            yield self._refused(self.given["rejected"])
            for name in ("expect", "replays", "accepted"):
                if name in self.given:
                    raise self.given[name].error("a refused call gives no result; write unchanged instead")
        elif part is not None:
            yield from self._of_sequence(*part, replaced=set(expected))
        for name, entry in expected.items():
            yield from self._expected(name, entry)
        if "unchanged" in self.given:
            yield from self._unchanged(self.given["unchanged"], refused=refused)
        if "accepted" in self.given:
            self.given["accepted"].choice(("true",))
            yield Accepted(self._file(self.given["accepted"], "", "accepted"))
        if replayed:
            for name in EXPECTED_ARRAYS:
                yield Same(self._filed("RESET-REPLAY"), name, replayed)

    def _filed(self, requirement: str) -> str:
        """The requirement of the step, else this one as the level files it."""
        return self.override or at_level(requirement, self.level)

    def _file(self, cursor: Cursor, default: str, what: str) -> str:
        if not self.override and not default:
            raise cursor.error(f"{what} has no requirement of its own here; add requirement: ID to the step")
        return self.override or default

    def _of_sequence(
        self, sequence: Sequence, start: int, stop: int, *, replaced: set[str]
    ) -> Iterator[Expectation]:
        kept = {}
        for name in sequence.exact if self.op == "append" else ("output",):
            if name in ("keys", "values"):
                part = sequence.part(name, 0, stop)
                kept[self._field(name)] = part.shape
            elif name in sequence.exact:
                part = sequence.part(name, start, stop)
            if name not in replaced and name in sequence.exact:
                yield self._close(name, part, sequence.kappa.get(name))
        if self.op != "append":
            return
        if "length" not in replaced:
            yield self._length(stop)
        if kept:
            yield Shapes(self._filed("STORE-LOGICAL-SHAPE"), kept)
        if "output" in sequence.exact:
            shape = sequence.part("output", start, stop).shape
            yield Shapes(self._filed("SHAPE-OUTPUT"), {"output": shape})

    def _field(self, name: str) -> str:
        elsewhere = self.observed != self.target and name in ("keys", "values")
        return f"{name}:{self.observed}" if elsewhere else name

    def _close(self, name: str, value: Any, kappa: tuple[float, float, float] | None = None) -> Close:
        own = self._filed(REQUIREMENT_OF_FIELD[name])
        return Close(own, self._field(name), value, self.bound, kappa)

    def _length(self, rows: int) -> Length:
        own = self._filed("RESET-LENGTH" if self.op == "reset" else "STORE-LENGTH")
        return Length(own, rows, self.observed if self.observed != self.target else None)

    def _expected(self, name: str, entry: Cursor) -> Iterator[Expectation]:
        reset = self.op == "reset"
        if name == "length":
            yield self._length(entry.integer(0))
        elif name == "capacity":
            default = "RESET-CAPACITY" if reset else ""
            yield Declares(self._file(entry, default, "capacity"), "capacity", entry.integer(0))
        elif name == "work":
            for figure, number in entry.fields((), WORK).items():
                yield Declares(self.override or "REUSE-WORK-STEP", f"work.{figure}", number.integer(0))
        elif name == "storage":
            entry.choice(("same",))
            if not reset:
                raise entry.error("storage: same belongs to a reset; elsewhere write unchanged")
            yield self._storage_kept()
        else:
            yield self._expected_array(name, entry)

    def _storage_kept(self) -> Unchanged:
        return Unchanged(
            self.target, storage=self._filed("RESET-BYTES"), addresses=self._filed("RESET-ADDRESSES"),
            capacity="" if self.level == "decoder" else self._filed("RESET-CAPACITY"),
        )

    def _expected_array(self, name: str, entry: Cursor) -> Close:
        if isinstance(entry.value, dict):
            return self._close(name, read_array(entry, self.numbers.golden, causal=name == "weights"))
        found = entry.match(FIELD_REFERENCE, "an array, or a part of a sequence such as first.output[0:1]")
        sequence = self.sequences.get(found[1])
        if sequence is None or found[2] not in sequence.exact or found[2].partition(".")[0] != name:
            raise entry.error(f"{short(entry.text())} is no exact {name}")
        array = sequence.exact[found[2]]
        axis = time_axis(name, self.level)
        start, stop = read_range(entry, found[3], found[4], array.shape[axis])
        part = sliced(array, axis, start, stop)
        seen = part[..., :stop] if name == "weights" else part
        return self._close(name, seen, sequence.kappa.get(found[2]))

    def _refused(self, cursor: Cursor) -> Refused:
        given = cursor.fields(("kind",), ("requirement", *DETAILS))
        kinds = read_kinds(given["kind"])
        own = read_requirement(given["requirement"]) if "requirement" in given else ""
        own = own or self._filed(REQUIREMENT_OF_KIND.get(kinds[0], ""))
        if not own:
            raise cursor.error(f"{kinds[0]} has no requirement of its own; add requirement: ID")
        details = {name: _detail(name, given[name]) for name in DETAILS if name in given}
        return Refused(own, kinds, details)

    def _unchanged(self, cursor: Cursor, *, refused: bool) -> Iterator[Unchanged]:
        if not refused and not self.override:
            raise cursor.error("unchanged beside a call that is not refused needs requirement: ID")
        parts = {part: self._filed(own) for part, own in UNCHANGED.items()}
        for name in cursor.titles():
            yield Unchanged(name, **parts)


def _detail(name: str, cursor: Cursor) -> Any:
    """What a rejection carries: a stage is a word, a value a number, all else one whole number or several."""
    if name == "stage":
        return cursor.text()
    if name == "value":
        return cursor.read(handed_number)
    numbers = cursor.integers()
    if not numbers or (len(numbers) > 1 and name in ("index", "parameter")):
        raise cursor.error(f"{name} is one whole number")
    return numbers[0] if len(numbers) == 1 else numbers
