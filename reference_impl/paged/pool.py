"""The pool of physical blocks: storage, free list, reference counts. Source: Kwon et al. 2023, section 4."""

from __future__ import annotations

import numpy as np

from reference_impl.layer.memory import allocate, element_count
from reference_impl.layer_errors import ZeroCapacityError
from reference_impl.row_errors import BlocksExhaustedError, ZeroBlockSizeError


class BlockPool:
    """Blocks of `block_size` rows, for one layer, shared by every cache that is built on the pool.

    keys [blocks, G, block_size, dk] and values [blocks, G, block_size, dv] are allocated once and never
    replaced. Free blocks are handed out in an order shuffled by `seed`, so that no reader can rely on
    physical order. A block that comes back keeps its bytes: whoever gets it next writes before it reads.
    Raises ZeroBlockSizeError, ZeroCapacityError where the pool would have no block,
    ElementCountOverflowError, AllocationFailedError.
    """

    def __init__(
        self,
        *,
        blocks: int,
        block_size: int,
        kv_heads: int,
        key_width: int,
        value_width: int,
        seed: int = 0,
    ) -> None:
        if block_size < 1:
            raise ZeroBlockSizeError(block_size)
        if blocks < 1:
            raise ZeroCapacityError(blocks)
        self.blocks, self.block_size, self.kv_heads = blocks, block_size, kv_heads
        for width in (key_width, value_width):
            element_count(blocks, kv_heads, block_size, width)
        self.keys = allocate((blocks, kv_heads, block_size, key_width))
        self.values = allocate((blocks, kv_heads, block_size, value_width))
        self._free = [int(block) for block in np.random.default_rng(seed).permutation(blocks)]
        self._references = [0] * blocks

    @property
    def free(self) -> tuple[int, ...]:
        """The blocks that nobody holds, next to be handed out last."""
        return tuple(self._free)

    @property
    def references(self) -> tuple[int, ...]:
        """How many block tables hold each block."""
        return tuple(self._references)

    def require(self, blocks: int) -> None:
        """Refuse as `blocks_exhausted` unless that many blocks are free."""
        if blocks > len(self._free):
            raise BlocksExhaustedError(blocks, len(self._free), self.blocks)

    def take(self) -> int:
        """A free block, held once from now on."""
        self.require(1)
        block = self._free.pop()
        self._references[block] = 1
        return block

    def share(self, block: int) -> int:
        """The same block, held once more."""
        if not self._references[block]:
            raise ValueError(f"block {block} is free; only a held block can be shared")
        self._references[block] += 1
        return block

    def release(self, block: int) -> None:
        """Give up one hold; the last one puts the block on the free list."""
        if not self._references[block]:
            raise ValueError(f"block {block} is free already; it was released once too often")
        self._references[block] -= 1
        if not self._references[block]:
            self._free.append(block)

    def own(self, block: int) -> int:
        """A block with the same rows that nobody else holds: itself, or a copy where it is shared."""
        if self._references[block] == 1:
            return block
        copy = self.take()
        self.keys[copy] = self.keys[block]
        self.values[copy] = self.values[block]
        self.release(block)
        return copy
