"""Rotation of heads by absolute position."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from conformance.budget.units import Array
from conformance.values import Pairing, RopeConfig


@dataclass(frozen=True, eq=False)
class Rotation:
    """Angles of T consecutive positions: angle, cosine and sine [T, d/2], exponent 2i/d [d/2]; read-only."""

    pairing: Pairing
    base: float
    exponent: Array
    angle: Array
    cosine: Array
    sine: Array

    def halves(self) -> tuple[slice, slice]:
        """The features that are first and second of their pair."""
        half = len(self.exponent)
        if self.pairing == "adjacent":
            return slice(0, None, 2), slice(1, None, 2)
        return slice(0, half), slice(half, None)

    def both(self, table: Array) -> Array:
        """[T, d/2] spread to [T, d], the same number for both features of a pair."""
        wide = np.empty((len(table), 2 * table.shape[-1]))
        first, second = self.halves()
        wide[:, first] = wide[:, second] = table
        return wide

    def partner(self, heads: Array) -> Array:
        """[..., T, d] with the two features of every pair exchanged."""
        first, second = self.halves()
        exchanged = np.empty_like(heads)
        exchanged[..., first], exchanged[..., second] = heads[..., second], heads[..., first]
        return exchanged

    def apply(self, heads: Array) -> Array:
        """Rotate heads [..., T, d]: (a c - b s, a s + b c)."""
        first, second = self.halves()
        a, b = heads[..., first], heads[..., second]
        rotated = np.empty_like(heads)
        rotated[..., first] = a * self.cosine - b * self.sine
        rotated[..., second] = a * self.sine + b * self.cosine
        return rotated


def rotation(rope: RopeConfig, width: int, first_position: int, count: int) -> Rotation:
    """The rotation of positions `first_position` to `first_position + count - 1` for heads of `width`."""
    return _rotation(float(rope.base), rope.pairing, width, first_position, count)


@lru_cache(maxsize=64)
def _rotation(base: float, pairing: Pairing, width: int, first_position: int, count: int) -> Rotation:
    exponent = np.arange(0, width, 2) / width
    positions = np.arange(first_position, first_position + count, dtype=np.float64)
    angle = positions[:, None] * np.power(base, -exponent)
    arrays = (exponent, angle, np.cos(angle), np.sin(angle))
    for array in arrays:
        array.flags.writeable = False
    return Rotation(pairing, base, *arrays)
