"""What the open layer keeps: parameter nodes, layers, caches. Plain on purpose."""

from __future__ import annotations

from dataclasses import dataclass, field
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
