"""What is known of the operands of attention before the scores: magnitudes, errors, and their constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformance.budget.units import Array, Units, accumulated


@dataclass(frozen=True, eq=False)
class Operand:
    """An array with the error it carries; `reach` is the largest magnitude that a computed one may have."""

    exact: Array
    error: Array

    @property
    def magnitude(self) -> Array:
        """|exact|."""
        return np.abs(self.exact)

    @property
    def reach(self) -> Array:
        """|exact| + error."""
        grown: Array = np.abs(self.exact) + self.error
        return grown

    def of(self, lanes: tuple[slice, slice]) -> Operand:
        """Some lanes and key/value heads alone."""
        return Operand(self.exact[lanes], self.error[lanes])

    def shared(self) -> Operand:
        """[B,G,T,*] as [B,G,1,T,*]."""
        return Operand(self.exact[:, :, None], self.error[:, :, None])


@dataclass(frozen=True, eq=False)
class Operands:
    """query [B,G,r,T,dk], key [B,G,T,dk] and value [B,G,T,dv], with r = H/G query heads to a lane."""

    query: Operand
    key: Operand
    value: Operand

    def of(self, lanes: tuple[slice, slice]) -> Operands:
        """Some lanes and key/value heads alone."""
        return Operands(self.query.of(lanes), self.key.of(lanes), self.value.of(lanes))

    def shared(self) -> Operands:
        """Key and value with an axis of length 1 in the place of r."""
        return Operands(self.query, self.key.shared(), self.value.shared())


@dataclass(frozen=True)
class ScoreCosts:
    """Relative costs on the way from a query and a key to the logarithm of a weight.

    dot: per product of features, on sum |q||k|. scale: on the score itself, for the root, the quotient and
    the product (and the change to base 2). weight: on the score and on the largest score, for subtracting
    one from the other and for the exponential. position: per position of the row, for summing and rescaling.
    underflow: absolute, per score.
    """

    dot: float
    scale: float
    largest: float
    position: float
    underflow: float

    @classmethod
    def of(cls, units: Units, width: int, *, extra_products: int) -> ScoreCosts:
        """extra_products: roundings of single features where scaling is split between query and key."""
        return cls(
            dot=accumulated(width + extra_products, units.arithmetic) + units.intermediate,
            scale=4.0 * units.arithmetic + 2.0 * units.intermediate + 2.0 * units.softmax + 2.0 * units.cast,
            largest=2.0 * units.softmax,
            position=4.0 * units.softmax,
            underflow=2.0 * (width + 2) * units.underflow + 2.0 * units.stored_underflow,
        )
