"""Refusals of stores, paged caches and cache edits, beside those of the layer and in the same style."""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.layer_errors import (
    CacheError,
    CacheHeadCountMismatchError,
    CacheHeadWidthMismatchError,
    InputRankError,
)


class RowsRankError(InputRankError):
    """Key or value rows do not have four axes."""

    text = "rows must be [B,G,T,d]; got {rank} axes"


class RowsHeadCountError(CacheHeadCountMismatchError):
    """The rows have another number of key/value heads than the cache."""

    text = "the cache keeps {cache} key/value heads; the rows have {layer}"


class RowsHeadWidthError(CacheHeadWidthMismatchError):
    """The rows are not as wide as the slots of the cache."""

    text = "the slots are {cache} wide; the rows are {layer}"


@dataclass(eq=False, repr=False)
class InvalidLengthError(CacheError):
    """A truncation to a length that the cache does not have."""

    kind = "invalid_length"
    text = "truncation to {length} rows was asked of {held}; name 0 to {held}"
    length: int
    held: int


@dataclass(eq=False, repr=False)
class LaneOutOfRangeError(CacheError):
    """A reorder names a lane that the cache does not have."""

    kind = "lane_out_of_range"
    text = "lane {lane} was named as a source; the cache has {batch_size} lanes, counted from 0"
    lane: int
    batch_size: int


@dataclass(eq=False, repr=False)
class LaneCountError(CacheError):
    """A reorder does not name exactly one source for each lane."""

    kind = "lane_out_of_range"
    text = "{named} sources were named for {batch_size} lanes; name one for each"
    named: int
    batch_size: int


@dataclass(eq=False, repr=False)
class ZeroBlockSizeError(CacheError):
    """Blocks that can hold no row were asked for."""

    kind = "zero_block_size"
    text = "a block needs room for at least one row; got block size {block_size}"
    block_size: int = 0


@dataclass(eq=False, repr=False)
class BlocksExhaustedError(CacheError):
    """The pool has fewer free blocks than a call needs; the call took none."""

    kind = "blocks_exhausted"
    text = "{needed} blocks are needed and {free} of {blocks} are free; give a sequence back first"
    needed: int
    free: int
    blocks: int
