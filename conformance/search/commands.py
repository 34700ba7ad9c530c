"""What search may do. Each command writes a few steps into a script, or none where it makes no sense."""

from __future__ import annotations

from conformance.search.lives import Another, Fork, Reorder, Truncate
from conformance.search.offences import (
    EmptyChunk,
    NotFinite,
    OtherGeometry,
    OtherLayer,
    Scene,
    Update,
    WrongForm,
)
from conformance.search.pools import Move, MoveKind, PoolLife
from conformance.search.rows import (
    Append,
    EyesShut,
    Fill,
    Foresee,
    OverwriteInput,
    OverwriteSnapshot,
    Poison,
    Probe,
    Replay,
    Reset,
)

Command = (
    Append | Fill | Reset | Poison | OverwriteInput | OverwriteSnapshot | Another | Truncate | Fork | Reorder
    | Update | WrongForm | NotFinite | OtherLayer | OtherGeometry | EmptyChunk | Replay | Scene | Probe
    | EyesShut | Foresee | PoolLife
)  # fmt: skip

__all__ = [
    "Another",
    "Append",
    "Command",
    "EmptyChunk",
    "EyesShut",
    "Fill",
    "Foresee",
    "Fork",
    "Move",
    "MoveKind",
    "NotFinite",
    "OtherGeometry",
    "OtherLayer",
    "OverwriteInput",
    "OverwriteSnapshot",
    "Poison",
    "PoolLife",
    "Probe",
    "Reorder",
    "Replay",
    "Reset",
    "Scene",
    "Truncate",
    "Update",
    "WrongForm",
]
