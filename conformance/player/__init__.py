"""Plays a trace on anything behind an adapter and records what was observed."""

from conformance.player.play import play
from conformance.player.records import (
    Buffer,
    CacheView,
    Errored,
    Playthrough,
    RefusedCall,
    Returned,
    StepRecord,
)

__all__ = [
    "Buffer",
    "CacheView",
    "Errored",
    "Playthrough",
    "RefusedCall",
    "Returned",
    "StepRecord",
    "play",
]
