"""The ordered checks of the open layer, one function a check, so that a killer can drop or exchange them."""

from __future__ import annotations

import struct
from typing import Any

from conformance.killers.open_state import Array, OpenCache, OpenLayer
from conformance.rejections import Rejected
from conformance.values import PARAMETERS, LayerConfig

LARGEST_COUNT = 2**63 - 1
MEMORY_LIMIT = 2**40
"""Elements beyond which the open layer does not even ask for memory."""


def refuse_construction(config: LayerConfig, batch_size: int, capacity: int) -> None:
    """The refusals of construction, in order. Raises Rejected."""
    if batch_size == 0:
        raise Rejected("zero_batch_size", "a cache of no lanes")
    if capacity == 0:
        raise Rejected("zero_capacity", "a cache of no rows")
    if capacity > config.rope.max_positions:
        raise Rejected(
            "capacity_exceeds_positions", f"{capacity} rows, {config.rope.max_positions} positions",
            expected=config.rope.max_positions, found=capacity,
        )  # fmt: skip
    elements = batch_size * config.kv_heads * capacity * config.head_width
    if elements > LARGEST_COUNT:
        raise Rejected("element_count_overflow", f"{elements} elements")
    if elements > MEMORY_LIMIT:
        raise Rejected("allocation_failed", f"no memory for {elements} elements")


def rank(_: Any, __: OpenLayer, ___: OpenCache, rows: Array) -> None:
    """Check 1."""
    if rows.ndim != 3:
        raise Rejected("input_rank", f"rank {rows.ndim}, expected 3", expected=3, found=rows.ndim)


def tokens(adapter: Any, _: OpenLayer, __: OpenCache, rows: Array) -> None:
    """Check 2."""
    count = rows.shape[1]
    if adapter.one_row and count != 1:
        raise Rejected("single_token_required", f"{count} tokens, expected 1", expected=1, found=count)
    if count == 0:
        raise Rejected("empty_chunk", "no rows")


def batch(_: Any, __: OpenLayer, cache: OpenCache, rows: Array) -> None:
    """Check 3."""
    if rows.shape[0] != cache.lanes:
        raise Rejected(
            "input_batch_mismatch", f"{rows.shape[0]} lanes, the cache has {cache.lanes}",
            expected=cache.lanes, found=rows.shape[0],
        )  # fmt: skip


def width(_: Any, layer: OpenLayer, __: OpenCache, rows: Array) -> None:
    """Check 4."""
    if rows.shape[2] != layer.config.model_width:
        raise Rejected(
            "input_width_mismatch", f"width {rows.shape[2]}, the layer has {layer.config.model_width}",
            expected=layer.config.model_width, found=rows.shape[2],
        )  # fmt: skip


def model_width(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    """Check 5."""
    _geometry("cache_model_width_mismatch", cache.config.model_width, layer.config.model_width)


def head_count(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    """Check 6, query heads and key/value heads."""
    _geometry("cache_head_count_mismatch", cache.config.heads, layer.config.heads)
    _geometry("cache_head_count_mismatch", cache.config.kv_heads, layer.config.kv_heads)


def head_width(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    """Check 7."""
    _geometry("cache_head_width_mismatch", cache.config.head_width, layer.config.head_width)


def _geometry(kind: str, own: int, given: int) -> None:
    if own != given:
        raise Rejected(kind, f"the cache has {own}, the layer {given}", expected=own, found=given)


def identity(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    """Check 8."""
    for name in PARAMETERS:
        if cache.nodes[name] is not layer.nodes[name]:
            raise Rejected("cache_layer_mismatch", f"{name} is another node")


def revision(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    """Check 9."""
    for index, name in enumerate(PARAMETERS):
        own, given = cache.revisions[name], layer.nodes[name].revision
        if own != given:
            raise Rejected(
                "cache_layer_revision_mismatch", f"{name} is at revision {given}, the cache at {own}",
                parameter=index, expected=own, found=given,
            )  # fmt: skip


def rope(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    """Check 10: base by its bits."""
    own, given = cache.config.rope, layer.config.rope
    same_base = struct.pack("<d", own.base) == struct.pack("<d", given.base)
    if not same_base or own.max_positions != given.max_positions or own.pairing != given.pairing:
        raise Rejected("cache_rope_mismatch", f"{given} is not {own}")


def room(_: Any, __: OpenLayer, cache: OpenCache, rows: Array) -> None:
    """Check 11."""
    if cache.length + rows.shape[1] > cache.capacity:
        raise Rejected("full", f"{rows.shape[1]} rows onto {cache.length} of {cache.capacity}")


CHECKS = (rank, tokens, batch, width, model_width, head_count, head_width, identity, revision, rope, room)
