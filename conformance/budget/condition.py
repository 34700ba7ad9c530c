"""The condition of a fixture: its error bound per unit of rounding, a property of the fixture alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.budget.bound import bound_layer
from conformance.budget.bounds import LayerBound
from conformance.budget.shapes import layer_operands
from conformance.budget.units import Units
from conformance.values import LayerConfig, LayerParameters

# Small enough for the bound to be linear, and a power of two so that the division is exact.
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Kappa:
    """Bound per unit of rounding in the linear limit, per element of every field.

    To first order a bound is `arithmetic * u(arithmetic) + storage * u(storage) + angle * u(angles)`, the
    second term only where storage is coarser than arithmetic. 1e-12 is proved for float64 where
    `arithmetic + angle` is at most 9007.
    """

    arithmetic: LayerBound
    storage: LayerBound
    angle: LayerBound

    def largest(self, field: str = "output") -> tuple[float, float, float]:
        """The largest element of one field in each channel: (arithmetic, storage, angle).

        `keys` and `values` name the stored rows. Raises AttributeError for a field that has no bound.
        """
        channels = (self.arithmetic, self.storage, self.angle)
        first, second, third = (float(np.max(getattr(channel, field))) for channel in channels)
        return first, second, third


def layer_kappa(
    config: LayerConfig, parameters: LayerParameters, rows: Any, *, first_position: int = 0
) -> Kappa:
    """The condition of rows [B,T,D]. Raises TraceError where a shape does not fit.

    arithmetic counts the softmax too and takes the angles as exact; angle counts them alone.
    """
    given = layer_operands(config, parameters, rows)

    def channel(units: Units) -> LayerBound:
        return bound_layer(config, given, units, first_position).scaled(1.0 / _UNIT)

    with np.errstate(all="ignore"):
        return Kappa(
            arithmetic=channel(Units(arithmetic=_UNIT, softmax=_UNIT)),
            storage=channel(Units(storage=_UNIT)),
            angle=channel(Units(angle=_UNIT)),
        )
