"""Rotary positions: a pair (l, r) at angle a becomes (l cos a - r sin a, l sin a + r cos a)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference_impl.layer.config import RopeConfig
from reference_impl.layer.memory import Array

BLOCK = 64
"""Positions whose turns are kept at a time. A table of all would grow with the position capacity."""


class Turn(NamedTuple):
    """Cosine and signed sine of some positions, each [T,d]; the sine of a pair's left feature is negative."""

    cosine: Array
    sine: Array


class Rotation:
    """The rotary positions of one layer, laid out by feature, so that a rotation is two products and a sum.

    frequency [d], radians per position; partner [d], the other feature of the pair; sign [d].
    """

    __slots__ = ("_block", "_block_start", "frequency", "partner", "sign")

    def __init__(self, rope: RopeConfig, head_width: int) -> None:
        pairs = np.arange(head_width // 2)
        if rope.pairing == "adjacent":
            left, right = 2 * pairs, 2 * pairs + 1
        else:
            left, right = pairs, pairs + head_width // 2
        self.frequency: Array = np.empty(head_width)
        self.frequency[left] = self.frequency[right] = np.float64(rope.base) ** (-2.0 * pairs / head_width)
        self.partner: NDArray[np.intp] = np.empty(head_width, dtype=np.intp)
        self.partner[left], self.partner[right] = right, left
        self.sign: Array = np.ones(head_width)
        self.sign[left] = -1.0
        self._block_start, self._block = 0, self._turn(0, BLOCK)

    def turn(self, start: int, rows: int) -> Turn:
        """The turn of rows at positions start to start + rows - 1."""
        if rows != 1:
            return self._turn(start, rows)
        place = start - self._block_start
        if not 0 <= place < BLOCK:
            self._block_start, self._block = start, self._turn(start, BLOCK)
            place = 0
        return Turn(self._block.cosine[place], self._block.sine[place])

    def _turn(self, start: int, rows: int) -> Turn:
        angle = np.arange(start, start + rows)[:, None] * self.frequency
        return Turn(np.cos(angle), np.sin(angle) * self.sign)

    def rotate(self, rows: Array, turn: Turn) -> Array:
        """Rotated copies of rows [B,heads,T,d]; row t of every lane and head turns by row t of `turn`."""
        rotated = rows * turn.cosine
        rotated += rows.take(self.partner, axis=-1) * turn.sine
        return rotated
