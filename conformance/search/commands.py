"""What search may do. Each command writes a few steps into a script, or none where it makes no sense."""

from __future__ import annotations

from conformance.search.afresh import FullPrefix, LongDecode, OverwriteWeights, Relive, Way
from conformance.search.lives import NO_LANES, Another, Fork, Reorder, Truncate
from conformance.search.offences import (
    EmptyChunk,
    NotFinite,
    OtherGeometry,
    OtherLayer,
    Scene,
    Update,
    WrongForm,
    WrongTwice,
)
from conformance.search.pools import Move, MoveKind, PoolLife
from conformance.search.rows import (
    Append,
    EyesShut,
    Fill,
    Foresee,
    OverwriteInput,
    OverwriteSnapshot,
    OverwriteStep,
    Poison,
    Probe,
    Reset,
)
from conformance.search.uneven import StoreLife, Turn, TurnKind

Command = (
    Append | Fill | Reset | Poison | OverwriteInput | OverwriteSnapshot | OverwriteStep | OverwriteWeights
    | Another | Truncate | Fork | Reorder | Update | WrongForm | WrongTwice | NotFinite | OtherLayer
    | OtherGeometry | EmptyChunk | Relive | Scene | Probe | EyesShut | Foresee | FullPrefix | LongDecode
    | PoolLife | StoreLife
)  # fmt: skip

__all__ = [
    "NO_LANES",
    "Another",
    "Append",
    "Command",
    "EmptyChunk",
    "EyesShut",
    "Fill",
    "Foresee",
    "Fork",
    "FullPrefix",
    "LongDecode",
    "Move",
    "MoveKind",
    "NotFinite",
    "OtherGeometry",
    "OtherLayer",
    "OverwriteInput",
    "OverwriteSnapshot",
    "OverwriteStep",
    "OverwriteWeights",
    "Poison",
    "PoolLife",
    "Probe",
    "Relive",
    "Reorder",
    "Reset",
    "Scene",
    "StoreLife",
    "Truncate",
    "Turn",
    "TurnKind",
    "Update",
    "Way",
    "WrongForm",
    "WrongTwice",
]
