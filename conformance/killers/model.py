"""What a killer is, and how one is written.

    @killer("rope_offset_plus1", fault="POS-OFFSET-ZERO", violates="POSITION-OFFSET",
            says="queries and keys are both rotated one position too far")
    class _(OpenLayerAdapter):
        def positions(self, work):
            return super().positions(work) + 1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Adapter = TypeVar("Adapter", bound=type)


@dataclass(frozen=True)
class Killer:
    """A faulty implementation with one fault.

    id: stable. fault: its class. says: what is wrong, for people. violates: the requirement that must catch
    it. level: the level it is of. make: builds the adapter. equal_to: killers that show the same, see
    `groups`.
    """

    id: str
    fault: str
    says: str
    violates: str
    make: Callable[[], Any]
    level: str = "layer"
    equal_to: tuple[str, ...] = ()


_REGISTERED: dict[str, Killer] = {}


def killer(
    name: str, *, fault: str, says: str, violates: str, level: str = "layer"
) -> Callable[[Adapter], Adapter]:
    """Register an adapter class as a killer. Raises ValueError for an id that stands twice."""

    def register(adapter: Adapter) -> Adapter:
        if name in _REGISTERED:
            raise ValueError(f"the killer {name!r} stands twice")
        adapter.name = f"killer {name}"  # type: ignore[attr-defined]
        _REGISTERED[name] = Killer(name, fault, says, violates, adapter, level)
        return adapter

    return register


def registered() -> tuple[Killer, ...]:
    """Every killer that has been registered so far, in the order of registration."""
    return tuple(_REGISTERED.values())
