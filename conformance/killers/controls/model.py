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

    def register(adapter: Adapter) -> Adapter:
        if name in _REGISTERED:
            raise ValueError(f"the control {name!r} stands twice")
        adapter.name = f"control {name}"  # type: ignore[attr-defined]
        _REGISTERED[name] = Control(name, says, adapter, strict, level)
        return adapter

    return register


def registered() -> tuple[Control, ...]:
    """Every control that has been registered so far, in the order of registration."""
    return tuple(_REGISTERED.values())
