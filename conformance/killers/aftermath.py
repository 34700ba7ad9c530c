"""Last bits that move after an event (reset, refusal, truncation): in what is told, not in what is kept.

Rules that ask for the same bits again are the only ones that can see these.
"""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.rejections import Rejected
from conformance.values import STEP_ARRAYS, Observation, Step


def _moved(given: Array) -> Array:
    """Every number is the next one upwards."""
    return np.nextafter(given, np.inf, dtype=given.dtype)


class _Aftermath(OpenLayerAdapter):
    """After `event` the field `told` is told with other last bits."""

    event = ""
    told = ""

    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        self.happened("reset", cache)

    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, length)
        self.happened("truncation", cache)

    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        try:
            return super().perform(layer, cache, rows)
        except Rejected:
            self.happened("refusal", cache)
            raise

    def happened(self, event: str, cache: OpenCache) -> None:
        """Remember the event."""
        if event == self.event:
            cache.notes["aftermath"] = True

    def step(self, work: Work) -> Step:
        made = super().step(work)
        if self.told in STEP_ARRAYS and "aftermath" in work.cache.notes:
            return Step(**{**vars(made), self.told: _moved(getattr(made, self.told))})
        return made

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        if self.told in ("keys", "values") and "aftermath" in cache.notes:
            return Observation(**{**vars(shown), self.told: _moved(getattr(shown, self.told))})
        return shown


KEPT = ("output", "keys", "values")

for _event, _violates, _fields in (
    ("reset", "RESET-REPLAY", (*STEP_ARRAYS, "keys", "values")),
    ("refusal", "ATOMIC-FUTURE", KEPT),
    ("truncation", "TRUNCATE-FORGETS", KEPT),
):
    for _field in _fields:
        killer(
            f"{_event}_moves_{_field}",
            fault="AFTERMATH",
            violates=_violates,
            says=f"after a {_event} other last bits are shown as {_field.replace('_', ' ')}",
        )(type(f"Moves_{_event}_{_field}", (_Aftermath,), {"event": _event, "told": _field}))


@killer(
    "unused_slots_move_output",
    fault="NAN-POISON-UNUSED",
    violates="STORE-UNUSED",
    says="what stands in unused slots decides the order of a sum: the output moves by last bits",
)
class _UnusedSlots(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        stop = work.start + work.count
        poisoned = work.cache.length == stop and bool(np.any(work.cache.values[:, :, stop:] != 0.0))
        return Step(**{**vars(made), "output": _moved(made.output)}) if poisoned else made


@killer(
    "lanes_leak_last_bits",
    fault="LANE-MIXED",
    violates="ISOLATE-LANES",
    says="a bit of another lane decides the last bits of an output",
)
class _LanesLeak(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        output = made.output.copy()
        if len(output) > 1 and int(abs(output[1].sum()) * 2**20) % 2:
            output[0] = _moved(output[0])
        return Step(**{**vars(made), "output": output})
