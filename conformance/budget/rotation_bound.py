"""The error of rotated heads, from the error of the heads and of the angles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformance.budget.rotary import Rotation
from conformance.budget.units import Array, Units, accumulated

_HEAD_ELEMENTS = 2**15
"""From this size on a head is computed by itself, so that it stays in the processor's cache."""


def angle_error(turn: Rotation, units: Units) -> Array:
    """[T, d/2]: how far a computed angle may lie from `p * base**(-2i/d)`.

    4 roundings of the angle's own size (position, power, reciprocal, product) and, because the exponent or
    the logarithm of the base is rounded too, 4 more that the power magnifies by 2i/d * ln(base).
    """
    roundings = 4.0 + 4.0 * turn.exponent * abs(np.log(turn.base))
    error: Array = roundings * units.angle * np.abs(turn.angle)
    return error


def rotated_error(turn: Rotation, heads: Array, rotated: Array, error: Array, units: Units) -> Array:
    """The error of `rotated` [B,N,T,d], given that `heads` carry `error`; all of one shape.

    A wrong angle moves a rotated pair at right angles to itself; the cosines, the sines, two products and a
    sum are rounded. At position 0 the cosine is 1 and the sine 0, and nothing is rounded but the storing.
    """
    tables = _Tables.of(turn, units)
    if heads[0, 0].size < _HEAD_ELEMENTS:
        total = tables.error(turn, heads, rotated, error)
    else:
        total = np.empty(heads.shape)
        for head in np.ndindex(*heads.shape[:2]):
            total[head] = tables.error(turn, heads[head], rotated[head], error[head])
    total += 4.0 * units.underflow
    return units.stored(total, np.abs(rotated))


@dataclass(frozen=True, eq=False)
class _Tables:
    """What the error of a rotation is made of, each [T, d]: factors of what is carried along (cosine, sine),
    of the length of the partner (sideways) and of a feature's own (shortfall), and of the heads (lift)."""

    cosine: Array
    sine: Array
    sideways: Array
    shortfall: Array
    lift: Array

    @classmethod
    def of(cls, turn: Rotation, units: Units) -> _Tables:
        wrong = angle_error(turn, units)
        sideways = np.minimum(wrong, 1.0)
        return cls(
            cosine=turn.both(np.minimum(np.abs(turn.cosine) + sideways, 1.0)),
            sine=turn.both(np.minimum(np.abs(turn.sine) + sideways, 1.0)),
            sideways=turn.both(sideways),
            shortfall=turn.both(np.minimum(0.5 * wrong * wrong, 2.0)),
            lift=turn.both(_roundings(units) * (turn.angle != 0.0)),
        )


    def error(self, turn: Rotation, heads: Array, rotated: Array, error: Array) -> Array:
        """The error of one head or of all, before it is stored; `error` is that of the heads."""
        length = np.abs(rotated)
        carried = error + self.lift * (np.abs(heads) + error)
        total = self.cosine * carried
        total += turn.partner(self.sine * carried + self.sideways * length)
        total += self.shortfall * length
        return total


def _roundings(units: Units) -> float:
    """Relative error of a cosine or sine (4), kept (1, and 1 if eager), multiplied and added (2, and 2)."""
    product = (1.0 + accumulated(4.0, units.angle)) * (1.0 + accumulated(1.0, units.table))
    product *= 1.0 + accumulated(3.0, units.intermediate)
    return product - 1.0 + product * accumulated(2.0, units.arithmetic)
