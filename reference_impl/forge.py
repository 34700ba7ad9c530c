"""forge's decoder: a growing slot per layer, and a position counter that lives in the model. System 2.

A deliberately plain design, kept as it is described: no capacity, no binding to weights, no validation and
no atomicity. A call that fails midway leaves the counter ahead and only the earlier layers longer. The
counter and the cache know nothing of each other: whoever resets one must reset both.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from reference_impl.decoder.config import DecoderConfig
from reference_impl.decoder.kernels import mean_square, rms_norm, silu
from reference_impl.layer.rope import Rotation
from reference_impl.store import Pair, SlotCache

Array = NDArray[Any]


class ForgeDecoder:
    """Tokens to logits in float32 or float64; every intermediate has the decoder's dtype.

    parameters are named and shaped as in `DecoderConfig.parameter_shapes`; they are copied.
    """

    def __init__(
        self, config: DecoderConfig, parameters: Mapping[str, ArrayLike], *, dtype: DTypeLike = np.float32
    ) -> None:
        self.config = config
        self.dtype = np.dtype(dtype)
        self.parameters = {
            name: np.array(parameters[name], dtype=self.dtype) for name in config.parameter_shapes()
        }
        self.position = 0
        self._rotation = Rotation(config.layer.rope, config.layer.head_width)

    def new_cache(self) -> SlotCache:
        """An empty cache with a slot for each block; the counter is not touched."""
        return SlotCache(self.config.layers)

    def reset_position(self) -> None:
        """Set the counter to 0, which is half of a reset: the other half is `SlotCache.reset`."""
        self.position = 0

    def __call__(self, tokens: ArrayLike, cache: SlotCache | None = None) -> Array:
        """Logits [B,T,V] of tokens [B,T].

        With a cache: the tokens stand at the counter's position and after it, the counter moves on by T
        before anything else happens, and every slot grows by T rows. Without one: positions begin at 0, and
        neither the counter nor any cache is read or changed.
        """
        given = np.asarray(tokens, dtype=np.intp)
        count = given.shape[1]
        start = 0
        if cache is not None:
            start = self.position
            self.position += count
        mask = causal_mask(count, start)
        rows = self._embed(given, start)
        for block in range(self.config.layers):
            past = None if cache is None else cache.get(block)
            rows, pair = self._block(block, rows, past, start, mask)
            if cache is not None:
                cache.update(block, pair)
        head = "token_embedding.weight" if self.config.tied else "head.weight"
        weight = self.parameters[head]
        logits: Array = self._norm("final_norm", rows) @ (weight.T if self.config.tied else weight)
        return logits

    def _embed(self, tokens: Array, start: int) -> Array:
        rows: Array = self.parameters["token_embedding.weight"][tokens]
        if self.config.positions == "learned":
            rows = rows + self.parameters["position_embedding.weight"][start : start + tokens.shape[1]]
        return rows

    def _block(
        self, block: int, rows: Array, past: Pair | None, start: int, mask: Array | None
    ) -> tuple[Array, Pair]:
        """The block's output rows and its pair, longer by the new rows."""
        at = f"blocks.{block}"
        attended, pair = self._attention(at, self._norm(f"{at}.attention_norm", rows), past, start, mask)
        rows = rows + attended
        normed = self._norm(f"{at}.ffn_norm", rows)
        with np.errstate(over="ignore"):
            gate = silu(self._project(f"{at}.ffn.gate", normed))
        return rows + self._project(f"{at}.ffn.down", gate * self._project(f"{at}.ffn.up", normed)), pair

    def _attention(
        self, at: str, rows: Array, past: Pair | None, start: int, mask: Array | None
    ) -> tuple[Array, Pair]:
        """Attention of the new rows over the past pair and themselves; past and new are concatenated."""
        shape = self.config.layer
        query = self._heads(f"{at}.attention.query", rows, shape.heads)
        key = self._heads(f"{at}.attention.key", rows, shape.kv_heads)
        value = self._heads(f"{at}.attention.value", rows, shape.kv_heads)
        if self.config.positions == "rope":
            query, key = self._rotate(query, start), self._rotate(key, start)
        if past is not None:
            key = np.concatenate([past[0], key], axis=2)
            value = np.concatenate([past[1], value], axis=2)
        shared = shape.heads // shape.kv_heads
        score = query @ np.repeat(key, shared, axis=1).swapaxes(-1, -2) / sqrt(shape.head_width)
        if mask is not None:
            score = np.where(mask, score, -np.inf)
        weight = np.exp(score - score.max(axis=-1, keepdims=True))
        weight = weight / weight.sum(axis=-1, keepdims=True)
        mixed = weight @ np.repeat(value, shared, axis=1)
        merged = mixed.swapaxes(1, 2).reshape(*rows.shape[:2], -1)
        return self._project(f"{at}.attention.output", merged), (key, value)

    def _norm(self, name: str, rows: Array) -> Array:
        return rms_norm(rows, mean_square(rows), self.parameters[f"{name}.gain"], self.config.norm_epsilon)

    def _project(self, name: str, rows: Array) -> Array:
        product: Array = rows @ self.parameters[f"{name}.weight"]
        return product + self.parameters[f"{name}.bias"] if self.config.biases else product

    def _heads(self, name: str, rows: Array, heads: int) -> Array:
        return self._project(name, rows).reshape(*rows.shape[:2], heads, -1).swapaxes(1, 2)

    def _rotate(self, rows: Array, start: int) -> Array:
        """Only new rows are ever rotated, at their true positions. Angles are float64 in either dtype."""
        turned = self._rotation.rotate(rows.astype(np.float64), self._rotation.turn(start, rows.shape[2]))
        return turned.astype(self.dtype)


def causal_mask(count: int, start: int) -> Array | None:
    """Which of start + count rows each of `count` new rows may see, [T, start + T]; None for a single row."""
    return None if count == 1 else np.tri(count, start + count, k=start, dtype=bool)


def stepwise_gap(model: ForgeDecoder, tokens: ArrayLike, cache: SlotCache | None = None) -> float:
    """The check of System 2: one uncached pass over tokens [B,T] against T one-token cached calls.

    The result is the largest difference of the two logit streams; the published one is 3.58e-07 for six
    tokens under a gate of 1e-5. Cache and counter are used as they stand, a new cache where none is given:
    a fresh pair agrees, and whatever one of them still holds shows.
    """
    given = np.asarray(tokens)
    slots = model.new_cache() if cache is None else cache
    steps = [model(given[:, t : t + 1], slots) for t in range(given.shape[1])]
    return float(np.abs(model(given) - np.concatenate(steps, axis=1)).max())
