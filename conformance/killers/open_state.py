"""What the open layer keeps: parameter nodes, layers, caches. Plain on purpose."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.values import LayerConfig

Array = NDArray[Any]


class Node:
    """A parameter: its identity is the object, its revision counts updates."""

    def __init__(self, value: Array) -> None:
        self.value = np.array(value, copy=True)
        self.revision = 0


@dataclass(eq=False)
class OpenLayer:
    """A layer: configuration and four nodes by name. `notes` are for faults; the clean layer has none."""

    config: LayerConfig
    nodes: dict[str, Node]
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class OpenCache:
    """Two buffers [B,G,C,d], a length, and what the cache was bound to.

    `counter` is where a fault may keep a position beside the length; the clean layer never reads it.
    """

    config: LayerConfig
    lanes: int
    capacity: int
    keys: Array
    values: Array
    nodes: dict[str, Node]
    revisions: dict[str, int]
    length: int = 0
    counter: int = 0
    high_water: int = 0
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Work:
    """One append under way: each stage adds what it made. T rows onto `start` retained ones."""

    layer: OpenLayer
    cache: OpenCache
    rows: Array
    start: int
    count: int
    stages: dict[str, Array] = field(default_factory=dict)


@cache
def frequencies(base: float, width: int) -> Array:
    """How far each of the width / 2 pairs turns from one position to the next."""
    made: Array = base ** (-2.0 * np.arange(width // 2) / width)
    made.flags.writeable = False
    return made


def turns(positions: Array, each: Array) -> tuple[Array, Array]:
    """Cosine and sine of the angles `positions * each`, kept for the positions that come again."""
    return _turns(positions.tobytes(), positions.shape, positions.dtype.str, each.tobytes(), each.dtype.str)


@lru_cache(maxsize=4096)
def _turns(
    positions: bytes, shape: tuple[int, ...], dtype: str, each: bytes, each_dtype: str
) -> tuple[Array, Array]:
    at = np.frombuffer(positions, dtype).reshape(shape)
    angle = at * np.frombuffer(each, each_dtype)
    found = np.cos(angle), np.sin(angle)
    for part in found:
        part.flags.writeable = False
    return found
