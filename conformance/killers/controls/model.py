"""What a control is, and how one is written: as a killer is, but for a `violates`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Adapter = TypeVar("Adapter", bound=type)


@dataclass(frozen=True)
class Control:
    """A correct implementation. says: how it differs. strict: it claims the strict profile, not only core."""

    id: str
    says: str
    make: Callable[[], Any]
    strict: bool = True
    level: str = "layer"


_REGISTERED: dict[str, Control] = {}


def control(
    name: str, *, says: str, strict: bool = True, level: str = "layer"
) -> Callable[[Adapter], Adapter]:
    """Register an adapter class as a control. Raises ValueError for an id that stands twice."""

    def registering(adapter: Adapter) -> Adapter:
        adapter.name = f"control {name}"  # type: ignore[attr-defined]
        register(name, adapter, says=says, strict=strict, level=level)
        return adapter

    return registering


def register(
    name: str, make: Callable[[], Any], *, says: str, strict: bool = True, level: str = "layer"
) -> None:
    """Register a factory of adapters as a control. Raises ValueError for an id that stands twice."""
    if name in _REGISTERED:
        raise ValueError(f"the control {name!r} stands twice")
    _REGISTERED[name] = Control(name, says, make, strict, level)


def registered() -> tuple[Control, ...]:
    """Every control that has been registered so far, in the order of registration."""
    return tuple(_REGISTERED.values())
