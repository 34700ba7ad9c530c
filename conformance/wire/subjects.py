"""What `wire try` asks of a driver at each level: one small case, spoken to in the same words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.values import (
    AttentionConfig,
    DecoderConfig,
    LayerConfig,
    LayerParameters,
    RopeConfig,
    StoreConfig,
)
from conformance.wire.client import WireAdapter

LANES, CAPACITY = 2, 4
_LAYER = LayerConfig(4, 2, 2, 2, RopeConfig(100.0, "adjacent", 8))


@dataclass(frozen=True)
class Subject:
    """One level of a driver: how a case is built, fed and refused.

    make builds what caches hang on, once; cache builds one; append feeds step t; refused is a call that must
    be refused with one of `kinds`. answer: the shape that the first append answers with. rows: the length
    after it. slot: the layer to look at, where a cache has several. prefix: the uncached path, with the
    shape of its answer.
    """

    make: Callable[[], Any]
    cache: Callable[[Any], Any]
    append: Callable[[Any, Any, int], Any]
    refused: Callable[[Any, Any], Any]
    kinds: tuple[str, ...]
    answer: tuple[int, ...] | None
    rows: int = 1
    slot: tuple[int, ...] = ()
    prefix: Callable[[Any], Any] | None = None
    prefix_shape: tuple[int, ...] = ()
    parameter: str = "key"


def subject(level: str, adapter: WireAdapter, declaration: Declaration) -> Subject:
    """The case of a level."""
    return _SUBJECTS[level](adapter, declaration)


def numbers(*shape: int) -> NDArray[np.float64]:
    """Small numbers, none of them whole, different in every place."""
    count = int(np.prod(shape))
    flat = np.array([((7 * i) % 11 - 5) / 8 + i / 64 for i in range(count)])
    return flat.reshape(shape)


def _layer(adapter: WireAdapter, _: Declaration) -> Subject:
    weights = LayerParameters(*(numbers(4, 4) + shift for shift in (0.0, 0.25, -0.25, 0.5)))
    rows = numbers(LANES, CAPACITY, 4)
    return Subject(
        make=lambda: adapter.build_layer(_LAYER, weights),
        cache=lambda layer: adapter.build_cache(layer, LANES, CAPACITY),
        append=lambda layer, cache, t: adapter.append(layer, cache, rows[:, t : t + 1]),
        refused=lambda layer, cache: adapter.append(layer, cache, rows[:1, :1, :3]),
        kinds=("input_batch_mismatch",),
        answer=(LANES, 1, 4),
        prefix=lambda layer: adapter.full_prefix(layer, rows),
        prefix_shape=(LANES, CAPACITY, 4),
    )


def _attention(adapter: WireAdapter, _: Declaration) -> Subject:
    config = AttentionConfig(2, 2, 2, 2)
    query, key, value = (numbers(LANES, 2, CAPACITY, 2) + shift for shift in (0.0, 0.25, -0.25))

    def append(_made: Any, cache: Any, t: int) -> Any:
        return adapter.append(cache, *(rows[:, :, t : t + 1] for rows in (query, key, value)))

    return Subject(
        make=lambda: config,
        cache=lambda made: adapter.build_cache(made, LANES, CAPACITY),
        append=append,
        refused=lambda _made, cache: adapter.append(cache, *([np.full((LANES, 2, 1, 2), np.nan)] * 3)),
        kinds=("non_finite",),
        answer=(LANES, 2, 1, 2),
    )


def _store(adapter: WireAdapter, declaration: Declaration) -> Subject:
    config = StoreConfig(2, 3, 2, 2)
    keys = numbers(LANES, 3, CAPACITY + 1, 2)
    fixed = declaration.capacity != "growing"

    def append(_made: Any, store: Any, t: int) -> Any:
        return adapter.append(store, 0, keys[:, :, t : t + 1], -keys[:, :, t : t + 1])

    def overfilled(store: Any) -> None:
        for t in range(16 * CAPACITY):
            append(config, store, t % CAPACITY)

    return Subject(
        make=lambda: config,
        cache=lambda made: adapter.build_store(made, LANES, CAPACITY if fixed else None),
        append=append,
        refused=lambda made, _: overfilled(adapter.build_store(made, LANES, CAPACITY)),
        kinds=("full",) if fixed else (),
        answer=None,
        slot=(0,),
    )


def _decoder(adapter: WireAdapter, declaration: Declaration) -> Subject:
    config = DecoderConfig(5, 2, _LAYER, 6, 1e-5)
    tokens = np.array([[0, 1, 2, 3], [4, 3, 2, 1]], dtype=np.int64)
    rows = 1 if declaration.prefill_logits == "last" else 2

    def append(_made: Any, session: Any, t: int) -> Any:
        return adapter.decode(session, tokens[:, t]) if t else adapter.prefill(session, tokens[:, :2])

    return Subject(
        make=lambda: adapter.build_model(config, decoder_weights(config)),
        cache=lambda model: adapter.open(model, LANES, CAPACITY),
        append=append,
        refused=lambda _model, session: adapter.prefill(session, tokens[:, :2]),
        kinds=("prefill_not_empty",),
        answer=(LANES, rows, 5),
        rows=2,
        slot=(0,),
        prefix=lambda model: adapter.full_prefix(model, tokens),
        prefix_shape=(LANES, CAPACITY, 5),
        parameter="final_norm.gain",
    )


def decoder_weights(config: DecoderConfig) -> Mapping[str, NDArray[np.float64]]:
    """Parameters of a tied decoder without biases, under the names of the decoder's golden trace."""
    width, inner = config.layer.model_width, config.feed_forward_width
    queries = config.layer.heads * config.layer.head_width
    groups = config.layer.kv_heads * config.layer.head_width
    shapes: dict[str, tuple[int, ...]] = {"token_embedding.weight": (config.vocabulary, width)}
    for block in (f"blocks.{n}" for n in range(config.layers)):
        shapes |= {
            f"{block}.attention_norm.gain": (width,),
            f"{block}.attention.query.weight": (width, queries),
            f"{block}.attention.key.weight": (width, groups),
            f"{block}.attention.value.weight": (width, groups),
            f"{block}.attention.output.weight": (queries, width),
            f"{block}.ffn_norm.gain": (width,),
            f"{block}.ffn.gate.weight": (width, inner),
            f"{block}.ffn.up.weight": (width, inner),
            f"{block}.ffn.down.weight": (inner, width),
        }
    shapes["final_norm.gain"] = (width,)
    return {name: numbers(*shape) for name, shape in shapes.items()}


_SUBJECTS: Mapping[str, Callable[[WireAdapter, Declaration], Subject]] = {
    "layer": _layer,
    "attention": _attention,
    "store": _store,
    "decoder": _decoder,
}
