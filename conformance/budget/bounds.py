"""Bounds as values: one array per field that can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from conformance.budget.units import Array

APPLICABLE_SPREAD = 0.1
"""Above this mean relative error of a row's weights a bound still holds, but says little."""


class _Bound:
    """What both kinds of bounds can do."""

    spread: float

    @property
    def applicable(self) -> bool:
        """Whether the precision is fine enough for these rows; false also where the bound is NaN."""
        return self.spread <= APPLICABLE_SPREAD

    def scaled(self, factor: float) -> Self:
        """Every bound times `factor`, the spread too."""
        return type(self)(**{name: part * factor for name, part in self._present().items()})

    def plus(self, other: Self) -> Self:
        """The sum of two bounds of the same rows, where both have the field. `spread`: the larger of both."""
        theirs = other._present()
        total = {name: part + theirs[name] for name, part in self._present().items() if name in theirs}
        return type(self)(**{**total, "spread": max(self.spread, other.spread)})

    def _present(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if part is not None}


@dataclass(frozen=True, eq=False)
class LayerBound(_Bound):
    """Absolute bounds, each of the shape of the field of `LayerPass` that it is named after.

    keys and values bound the observed cache (rotated keys; where keys are declared unrotated take `key`).
    weights is None for a long prefix. spread is the largest mean relative error of a row's weights, and
    `applicable` is false where it exceeds 0.1: the precision is then too coarse for these rows.
    """

    output: Array
    query: Array
    key: Array
    value: Array
    rotated_query: Array
    rotated_key: Array
    heads: Array
    merged: Array
    spread: float
    weights: Array | None = None

    @property
    def keys(self) -> Array:
        """Stored keys [B,G,T,d], rotated."""
        return self.rotated_key

    @property
    def values(self) -> Array:
        """Stored values [B,G,T,d]."""
        return self.value


@dataclass(frozen=True, eq=False)
class AttentionBound(_Bound):
    """output [B,H,T,dv], weights [B,H,T,T] or None, keys [B,G,T,dk], values [B,G,T,dv]; spread as above."""

    output: Array
    keys: Array
    values: Array
    spread: float
    weights: Array | None = None
