"""Reset: what must go, and what must stay."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.rejections import Rejected
from conformance.values import Step


@killer("reset_noop", fault="RESET-KEEPS-LENGTH", violates="RESET-LENGTH", says="reset does nothing")
class _ResetNothing(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        pass


@killer(
    "reset_clears_numbers_only",
    fault="RESET-KEEPS-LENGTH",
    violates="RESET-LENGTH",
    says="reset clears the buffers and keeps the length",
)
class _ResetNumbersOnly(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        cache.keys[...] = 0.0
        cache.values[...] = 0.0


@killer(
    "reset_clears", fault="RESET-TOUCHES-STORAGE", violates="RESET-BYTES", says="reset clears the buffers too"
)
class _ResetClears(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.keys[...] = 0.0
        cache.values[...] = 0.0


@killer(
    "reset_reallocates",
    fault="RESET-TOUCHES-STORAGE",
    violates="RESET-ADDRESSES",
    says="reset allocates new buffers",
)
class _ResetReallocates(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.keys, cache.values = cache.keys.copy(), cache.values.copy()


@killer(
    "reset_consumes_capacity",
    fault="RESET-TOUCHES-STORAGE",
    violates="RESET-CAPACITY",
    says="slots that were used once are not free again after a reset",
)
class _ResetConsumes(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        cache.notes["used"] = cache.notes.get("used", 0) + cache.length
        super().reset(cache)

    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        if cache.notes.get("used", 0) >= cache.capacity:
            raise Rejected("full", "no slot is left")
        return super().perform(layer, cache, rows)


@killer(
    "reset_grows_capacity",
    fault="RESET-TOUCHES-STORAGE",
    violates="RESET-CAPACITY",
    says="after a reset one row more is taken than the cache holds",
)
class _ResetGrows(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        if "grown" not in cache.notes:
            cache.notes["grown"] = True
            cache.capacity += 1
            wider = [np.concatenate([part, part[:, :, :1]], axis=2) for part in (cache.keys, cache.values)]
            cache.keys, cache.values = wider


@killer(
    "reset_shows_less_capacity",
    fault="RESET-TOUCHES-STORAGE",
    violates="RESET-CAPACITY",
    says="reset lowers the capacity that is shown to the rows that were held",
)
class _ResetShrinks(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        cache.capacity = max(cache.length, 1) if cache.capacity > cache.length else cache.capacity
        super().reset(cache)


@killer(
    "stale_after_reset",
    fault="RESET-KEEPS-ROWS",
    violates="RESET-INFLUENCE",
    says="after a reset rows up to the old high-water mark are still read",
)
class _StaleRows(OpenLayerAdapter):
    def _stale(self, work: Work, buffer: Array) -> Array:
        stop = work.start + work.count
        return buffer[:, :, stop : max(work.cache.high_water, stop)]

    def all_keys(self, work: Work) -> Array:
        return np.concatenate([super().all_keys(work), self._stale(work, work.cache.keys)], axis=2)

    def all_values(self, work: Work) -> Array:
        return np.concatenate([super().all_values(work), self._stale(work, work.cache.values)], axis=2)

    def visible(self, work: Work) -> Array:
        row = np.arange(work.stages["scores"].shape[-1])[None, :]
        query = np.arange(work.count)[:, None] + work.start
        return (row <= query) | (row >= work.start + work.count)


@killer(
    "stale_rows_weigh_nothing",
    fault="NAN-POISON-UNUSED",
    violates="RESET-POISONED",
    says="after a reset stale value rows are still multiplied with a weight of 0",
)
class _StaleTimesZero(OpenLayerAdapter):
    def heads(self, work: Work) -> Array:
        made = super().heads(work)
        stale = work.cache.values[:, :, work.start + work.count : work.cache.notes.get("held", 0)]
        return made + 0.0 * stale.sum()

    def reset(self, cache: OpenCache) -> None:
        cache.notes["held"] = max(cache.length, cache.notes.get("held", 0))
        super().reset(cache)


@killer(
    "replay_rounds_otherwise",
    fault="RESET-KEEPS-ROWS",
    violates="RESET-REPLAY",
    says="after a reset the sums run in another order: results agree to rounding, not to the bit",
)
class _ReplayRounds(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.notes["again"] = True

    def weights(self, work: Work) -> Array:
        made = super().weights(work)
        return np.nextafter(made, 1.0) if "again" in work.cache.notes else made


@killer(
    "replay_key_rounds_otherwise",
    fault="RESET-KEEPS-ROWS",
    violates="RESET-REPLAY",
    says="after a reset keys are rounded otherwise: they agree to the bound, not to the bit",
)
class _ReplayKeyRounds(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.notes["again"] = True

    def stored_keys(self, work: Work) -> Array:
        made = super().stored_keys(work)
        return np.nextafter(made, 1.0) if "again" in work.cache.notes else made
