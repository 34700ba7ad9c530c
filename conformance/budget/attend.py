"""Causal attention of a whole prefix: dense for short ones, in blocks of query rows for long ones.

Queries stand grouped, [B,G,r,T,dk] with r = H/G query heads to a key/value head; keys are [B,G,T,dk] and
values [B,G,T,dv].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from conformance.budget.units import Array

DENSE_ROWS = 64
"""Up to this many rows scores and weights are kept; beyond it memory would grow as the square of them."""

_BLOCK_ELEMENTS = 2**17


@dataclass(frozen=True, eq=False)
class Attended:
    """heads [B,G,r,T,dv]; scores and weights [B,G,r,T,T], zero above the diagonal, or None in blocks."""

    heads: Array
    scores: Array | None = None
    weights: Array | None = None


@dataclass(frozen=True, eq=False)
class Block:
    """Unnormalised weights of some query rows over all the keys that they see.

    lane: (b, g). rows: slice of query rows. weights [r*rows, rows.stop], the largest of each row 1 and zero
    above the diagonal, valid until the next block. largest [r*rows, 1]: the largest score of each row.
    """

    lane: tuple[int, int]
    rows: slice
    weights: Array
    largest: Array


@lru_cache(maxsize=16)
def hidden(count: int) -> NDArray[np.bool_]:
    """[T,T], true where a query may not look: above the diagonal; read-only."""
    mask = np.triu(np.ones((count, count), dtype=np.bool_), 1)
    mask.flags.writeable = False
    return mask


def attend(query: Array, key: Array, value: Array, *, dense: bool) -> Attended:
    """Softmax of the scaled dot products over positions up to the query's own, times the values."""
    return _attend_dense(query, key, value) if dense else _attend_in_blocks(query, key, value)


def _attend_dense(query: Array, key: Array, value: Array) -> Attended:
    above = hidden(query.shape[-2])
    scores = query @ key[:, :, None].swapaxes(-1, -2)
    scores *= 1.0 / np.sqrt(query.shape[-1])
    np.copyto(scores, -np.inf, where=above)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    np.copyto(scores, 0.0, where=above)
    return Attended(weights @ value[:, :, None], scores, weights)


def _attend_in_blocks(query: Array, key: Array, value: Array) -> Attended:
    heads = np.empty((*query.shape[:-1], value.shape[-1]))
    for block in causal_blocks(query, key):
        mixed = block.weights @ value[block.lane][: block.rows.stop]
        mixed /= block.weights.sum(axis=-1, keepdims=True)
        heads[block.lane][:, block.rows] = mixed.reshape(query.shape[2], -1, value.shape[-1])
    return Attended(heads)


def causal_blocks(query: Array, key: Array) -> Iterator[Block]:
    """Every query row once, in blocks whose weights stay small enough for the processor's cache."""
    lanes, groups, share, count, width = query.shape
    height = max(4, min(64, _BLOCK_ELEMENTS // (share * count)))
    buffer = np.empty(share * height * count)
    scaled = query * (1.0 / np.sqrt(width))
    for lane in np.ndindex(lanes, groups):
        for start in range(0, count, height):
            rows = slice(start, min(start + height, count))
            size = rows.stop - start
            weights = buffer[: share * size * rows.stop].reshape(share * size, rows.stop)
            left = scaled[lane][:, rows].reshape(share * size, width)
            np.matmul(left, key[lane][: rows.stop].T, out=weights)
            corner = weights.reshape(share, size, rows.stop)[:, :, start:]
            np.copyto(corner, -np.inf, where=hidden(size))
            largest = weights.max(axis=-1, keepdims=True)
            weights -= largest
            np.exp(weights, out=weights)
            yield Block(lane, rows, weights, largest)
