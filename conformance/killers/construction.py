"""Construction: what must be refused, and in which order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_checks import LARGEST_COUNT
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array
from conformance.rejections import Rejected
from conformance.values import LayerConfig


class _Lenient(OpenLayerAdapter):
    """Lets pass what would be refused as `missing`."""

    missing = ""

    def check_construction(self, config: LayerConfig, batch_size: int, capacity: int) -> None:
        try:
            super().check_construction(config, batch_size, capacity)
        except Rejected as refusal:
            if refusal.kind != self.missing:
                raise


@killer(
    "zero_batch_accepted",
    fault="CONSTRUCTION",
    violates="CONSTRUCT-ZERO-BATCH",
    says="a cache without lanes is built",
)
class _ZeroBatch(_Lenient):
    missing = "zero_batch_size"


@killer(
    "zero_capacity_accepted",
    fault="CONSTRUCTION",
    violates="CONSTRUCT-ZERO-CAPACITY",
    says="a cache without slots is built",
)
class _ZeroCapacity(_Lenient):
    missing = "zero_capacity"


@killer(
    "positions_unchecked",
    fault="ROPE-TABLE-BOUND",
    violates="CONSTRUCT-POSITIONS",
    says="a capacity beyond the positions of the rotation is accepted",
)
class _Positions(_Lenient):
    missing = "capacity_exceeds_positions"


@killer(
    "equal_positions_refused",
    fault="ROPE-TABLE-BOUND",
    violates="CONSTRUCT-POSITIONS-EQUAL",
    says="a capacity equal to the number of positions is refused",
)
class _EqualRefused(OpenLayerAdapter):
    def check_construction(self, config: LayerConfig, batch_size: int, capacity: int) -> None:
        rope = replace(config.rope, max_positions=config.rope.max_positions - 1)
        super().check_construction(replace(config, rope=rope), batch_size, capacity)


@killer(
    "count_wraps",
    fault="CONSTRUCTION",
    violates="CONSTRUCT-OVERFLOW",
    says="the number of elements wraps at 2^64, and a small buffer is allocated",
)
class _CountWraps(_Lenient):
    missing = "element_count_overflow"

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        count = batch_size * config.kv_heads * capacity * config.head_width
        wrapped = count > LARGEST_COUNT
        return super().allocate(config, 1 if wrapped else batch_size, 1 if wrapped else capacity)


@killer(
    "overflow_is_memory",
    fault="CONSTRUCTION",
    violates="CONSTRUCT-OVERFLOW",
    says="a number of elements beyond 2^63 - 1 is refused for want of memory",
)
class _OverflowIsMemory(_Lenient):
    missing = "element_count_overflow"


@killer(
    "memory_error_escapes",
    fault="CONSTRUCTION",
    violates="CONSTRUCT-ALLOCATION",
    says="storage that cannot be had raises what the allocator raises",
)
class _MemoryErrorEscapes(_Lenient):
    missing = "allocation_failed"

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        if batch_size * capacity > 2**40:
            raise MemoryError(f"cannot allocate for {batch_size} lanes of {capacity} rows")
        return super().allocate(config, batch_size, capacity)


@killer(
    "memory_taken_later",
    fault="CONSTRUCTION",
    violates="CONSTRUCT-ALLOCATION",
    says="storage is promised and not taken: a cache of 2^57 elements is built",
)
class _MemoryLater(_Lenient):
    missing = "allocation_failed"

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        if batch_size * capacity > 2**40:
            nothing = np.zeros((batch_size, config.kv_heads, 0, config.head_width))
            return nothing, nothing.copy()
        return super().allocate(config, batch_size, capacity)


@killer(
    "capacity_before_batch",
    fault="CHECK-ORDER",
    violates="CONSTRUCT-ORDER",
    says="capacity is looked at before the batch",
)
class _CapacityFirst(OpenLayerAdapter):
    def check_construction(self, config: LayerConfig, batch_size: int, capacity: int) -> None:
        super().check_construction(config, max(batch_size, 1), capacity)
        super().check_construction(config, batch_size, capacity)


@killer(
    "overflow_before_positions",
    fault="CHECK-ORDER",
    violates="CONSTRUCT-ORDER",
    says="the number of elements is looked at before the number of positions",
)
class _OverflowFirst(OpenLayerAdapter):
    def check_construction(self, config: LayerConfig, batch_size: int, capacity: int) -> None:
        if batch_size * config.kv_heads * capacity * config.head_width > LARGEST_COUNT:
            raise Rejected("element_count_overflow", "too many elements")
        super().check_construction(config, batch_size, capacity)


@killer(
    "refused_construction_locks_layer",
    fault="CONSTRUCTION",
    violates="CONSTRUCT-POSITIONS-EQUAL",
    says="after one refused construction the layer gives no cache any more",
)
class _LockedByRefusal(OpenLayerAdapter):
    def __init__(self) -> None:
        self.locked: set[int] = set()

    def check_construction(self, config: LayerConfig, batch_size: int, capacity: int) -> None:
        if id(config) in self.locked:
            raise Rejected("allocation_failed", "this layer was refused before")
        try:
            super().check_construction(config, batch_size, capacity)
        except Rejected:
            self.locked.add(id(config))
            raise
