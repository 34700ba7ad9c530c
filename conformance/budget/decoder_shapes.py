"""The parameters of a decoder by name, with the shape that a configuration gives each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.budget.units import Array
from conformance.errors import TraceError
from conformance.values import DecoderConfig

Tokens = NDArray[np.int64]


def decoder_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Name to shape, weights [in, out]; the order is that in which revisions are compared.

    A tied decoder has no `head.weight`, one with rotary positions no `position_embedding.weight`; the seven
    projections of each block have a `.bias` beside their `.weight` where the decoder has biases.
    """
    width = config.layer.model_width
    shapes: dict[str, tuple[int, ...]] = {"token_embedding.weight": (config.vocabulary, width)}
    if config.positions == "learned":
        shapes["position_embedding.weight"] = (config.layer.rope.max_positions, width)
    for block in range(config.layers):
        for name, shape in _block_shapes(config).items():
            shapes[f"blocks.{block}.{name}"] = shape
    shapes["final_norm.gain"] = (width,)
    if not config.tied:
        shapes["head.weight"] = (width, config.vocabulary)
    return shapes


def _block_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    layer, inner = config.layer, config.feed_forward_width
    queries, shared = layer.heads * layer.head_width, layer.kv_heads * layer.head_width
    attention = {
        "query": (layer.model_width, queries), "key": (layer.model_width, shared),
        "value": (layer.model_width, shared), "output": (queries, layer.model_width),
    }  # fmt: skip
    feed_forward = {
        "gate": (layer.model_width, inner), "up": (layer.model_width, inner),
        "down": (inner, layer.model_width),
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"attention_norm.gain": (layer.model_width,)}
    shapes |= _projections("attention", attention, biases=config.biases)
    shapes["ffn_norm.gain"] = (layer.model_width,)
    return shapes | _projections("ffn", feed_forward, biases=config.biases)


def _projections(
    part: str, weights: Mapping[str, tuple[int, int]], *, biases: bool
) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in weights.items():
        shapes[f"{part}.{name}.weight"] = shape
        if biases:
            shapes[f"{part}.{name}.bias"] = shape[1:]
    return shapes


def decoder_operands(
    config: DecoderConfig, parameters: Mapping[str, Any], tokens: Any
) -> tuple[dict[str, Array], Tokens]:
    """Parameters in float64 and tokens [B,T] as whole numbers.

    Raises TraceError that names a parameter which is missing, unknown or of another shape, or the first
    token outside the vocabulary, or more tokens than there are positions.
    """
    shapes = decoder_shapes(config)
    if odd := sorted(set(shapes) ^ set(parameters)):
        raise TraceError(f"{', '.join(odd)} missing or unknown in this configuration", path="parameters")
    weights = {name: np.asarray(parameters[name], dtype=np.float64) for name in shapes}
    for name, shape in shapes.items():
        if weights[name].shape != shape:
            found = list(weights[name].shape)
            raise TraceError(f"shape {found}; asked for {list(shape)}", path=f"parameters.{name}")
    given = np.asarray(tokens, dtype=np.int64)
    if given.ndim != 2 or not given.size:
        raise TraceError(f"tokens of shape {list(given.shape)}; asked for [B,T], not empty", path="tokens")
    outside = given[(given < 0) | (given >= config.vocabulary)]
    if outside.size:
        last = config.vocabulary - 1
        raise TraceError(f"token {int(outside[0])}; the vocabulary is 0 to {last}", path="tokens")
    if given.shape[1] > config.layer.rope.max_positions:
        raise TraceError(
            f"{given.shape[1]} tokens for {config.layer.rope.max_positions} positions", path="tokens"
        )
    return weights, given
