"""Operands as float64 arrays of the shapes that a configuration asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.budget.units import Array
from conformance.errors import TraceError
from conformance.values import AttentionConfig, LayerConfig, LayerParameters


@dataclass(frozen=True, eq=False)
class LayerOperands:
    """Rows [B,T,D] and the four weight matrices in float64."""

    rows: Array
    query: Array
    key: Array
    value: Array
    output: Array


def layer_operands(config: LayerConfig, parameters: LayerParameters, rows: Any) -> LayerOperands:
    """Check and convert. Raises TraceError that names the operand, its shape and the shape asked for."""
    _check_heads(config.heads, config.kv_heads)
    width = config.head_width
    if width < 2 or width % 2:
        raise TraceError(f"head_width is {width}; rotation needs an even width", path="config.head_width")
    inner, outer = config.heads * width, config.kv_heads * width
    return LayerOperands(
        _rows("rows", rows, (None, None, config.model_width)),
        _array("parameters.query", parameters.query, (config.model_width, inner)),
        _array("parameters.key", parameters.key, (config.model_width, outer)),
        _array("parameters.value", parameters.value, (config.model_width, outer)),
        _array("parameters.output", parameters.output, (inner, None)),
    )


def attention_operands(
    config: AttentionConfig, query: Any, key: Any, value: Any
) -> tuple[Array, Array, Array]:
    """Query [B,H,T,dk], key [B,G,T,dk] and value [B,G,T,dv] in float64, checked likewise."""
    _check_heads(config.heads, config.kv_heads)
    q = _rows("query", query, (None, config.heads, None, config.key_width))
    batch, _, count, _ = q.shape
    k = _array("key", key, (batch, config.kv_heads, count, config.key_width))
    v = _array("value", value, (batch, config.kv_heads, count, config.value_width))
    return q, k, v


def split_heads(projected: Array, heads: int) -> Array:
    """[B,T,heads*d] to [B,heads,T,d]."""
    batch, count, width = projected.shape
    return projected.reshape(batch, count, heads, width // heads).swapaxes(1, 2)


def merge_heads(heads: Array) -> Array:
    """[B,H,T,d] to [B,T,H*d]."""
    batch, count, rows, width = heads.shape
    return heads.swapaxes(1, 2).reshape(batch, rows, count * width)


def grouped(heads: Array, kv_heads: int) -> Array:
    """[B,H,...] to [B,G,H/G,...]: query head h reads key/value head h // (H/G)."""
    return heads.reshape(heads.shape[0], kv_heads, -1, *heads.shape[2:])


def ungrouped(heads: Array) -> Array:
    """[B,G,H/G,...] to [B,H,...]."""
    return heads.reshape(heads.shape[0], -1, *heads.shape[3:])


def _check_heads(heads: int, kv_heads: int) -> None:
    if kv_heads < 1 or heads % kv_heads:
        raise TraceError(
            f"{heads} query heads cannot share {kv_heads} key/value heads; kv_heads must divide heads",
            path="config.kv_heads",
        )


def _rows(name: str, given: Any, shape: tuple[int | None, ...]) -> Array:
    array = _array(name, given, shape)
    if 0 in array.shape:
        raise TraceError(f"{name} has shape {list(array.shape)}; at least one row is needed", path=name)
    return array


def _array(name: str, given: Any, shape: tuple[int | None, ...]) -> Array:
    array = np.asarray(given, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        wanted is None or wanted == found for wanted, found in zip(shape, array.shape, strict=True)
    )
    if not fits:
        asked = ["any" if wanted is None else wanted for wanted in shape]
        raise TraceError(f"{name} has shape {list(array.shape)}; asked for {asked}", path=name)
    return array
