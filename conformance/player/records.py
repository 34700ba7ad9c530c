"""What the player saw. Everything here is a copy taken at the moment of observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from conformance.trace.model import Operation, Trace
from conformance.values import Work


@dataclass(eq=False, slots=True)
class Buffer:
    """One physical allocation: where it is and what it holds.

    address is a number, or the text that a driver at the end of a pipe gives. data is a copy of the whole
    buffer, or None where a driver gave only `digest`, that of its bytes. elements counts numbers.
    """

    address: int | str
    digest: bytes | str | None
    elements: int
    nbytes: int
    data: NDArray[Any] | None = None
    self_declared: bool = False


@dataclass(eq=False, slots=True)
class CacheView:
    """A cache as it was observed: logical keys [B,G,n,dk], values [B,G,n,dv] where readable, and storage."""

    length: int
    capacity: int | None = None
    keys: NDArray[Any] | None = None
    values: NDArray[Any] | None = None
    storage: tuple[Buffer, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Returned:
    """The call came back: copies of the arrays that it handed out, by field name, and declared figures."""

    fields: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    length: int | None = None
    work: Work | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class RefusedCall:
    """The call was refused. `carried` holds what the rejection tells beside its kind."""

    kind: str
    message: str
    carried: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Errored:
    """The adapter broke: the text says what was raised, `detail` is its traceback."""

    message: str
    detail: str = ""


Outcome = Returned | RefusedCall | Errored


@dataclass(eq=False, slots=True)
class StepRecord:
    """One step as it was played. before and after: the watched caches by name."""

    index: int
    operation: Operation
    outcome: Outcome
    before: Mapping[str, CacheView]
    after: Mapping[str, CacheView]
    changed_inputs: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """How a finding names the step."""
        return self.operation.label or f"{self.operation.op} {self.operation.target}".strip()


@dataclass(eq=False, slots=True)
class Playthrough:
    """A trace as it was played. `broken` is set where not even the beginning could be built."""

    trace: Trace
    records: tuple[StepRecord, ...]
    broken: Errored | RefusedCall | None = None
    stopped: bool = False

    def labelled(self, name: str) -> StepRecord | None:
        """The step with that label, if it was played."""
        return next((r for r in self.records if r.operation.label == name), None)
