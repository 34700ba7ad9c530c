"""The embedded decoder session of System 3 behind the adapter of its level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

import reference_impl.layer as layer_reference
from conformance.adapter import Declaration
from conformance.adapters.numpy_layer import rejecting
from conformance.values import DecoderConfig, Observation
from reference_impl import decoder as reference
from reference_impl import layer_errors

FEATURES = frozenset({"gqa", "full_prefix", "update_parameters", "rewire", "work", "storage"})
WORDS = {
    "index": "index", "value": "value", "token": "value", "parameter": "parameter",
    "capacity": "expected", "tokens": "found", "vocabulary": "expected", "expected": "expected",
    "actual": "found", "rank": "found", "length": "found",
}  # fmt: skip
"""What a field of the reference's errors is called in a `Rejected`."""


class NumpyDecoderAdapter:
    """A `DecoderAdapter` over `reference_impl.decoder`. It translates words and refusals and adds nothing."""

    def __init__(self) -> None:
        self.declaration = Declaration(
            name="numpy-decoder", version=f"NumPy {np.__version__}", levels=("decoder",), features=FEATURES
        )

    def build_model(self, config: DecoderConfig, parameters: Mapping[str, Any]) -> reference.DecoderModel:
        """A model of new parameter nodes, each with a copy of the given weights."""
        return reference.DecoderModel.build(reference_config(config), parameters)

    def open(self, model: reference.DecoderModel, batch_size: int, capacity: int) -> reference.DecoderSession:
        """A session with empty caches; it locks the parameters until it is closed."""
        with rejecting(_carried):
            return reference.DecoderSession.open(model, batch_size, capacity)

    def prefill(self, session: reference.DecoderSession, tokens: Any) -> Any:
        """Tokens [B,T] to logits [B,T,V]."""
        with rejecting(_carried):
            return session.prefill(tokens)

    def decode(self, session: reference.DecoderSession, tokens: Any) -> Any:
        """Tokens [B] to logits [B,1,V]."""
        with rejecting(_carried):
            return session.decode(tokens)

    def observe(self, session: reference.DecoderSession, layer: int) -> Observation:
        """One layer: views of its rows and of both buffers; the session's work counts beside them."""
        cache = session.cache.layers[layer]
        keys, values = cache.key_storage, cache.value_storage
        return Observation(
            cache.length, cache.capacity, keys[:, :, : cache.length], values[:, :, : cache.length],
            (keys, values), {"work": asdict(session.work)},
        )  # fmt: skip

    def reset(self, session: reference.DecoderSession) -> None:
        """Length, phase and work to zero."""
        with rejecting(_carried):
            session.reset()

    def close(self, session: reference.DecoderSession) -> None:
        """The parameters may be updated again."""
        session.close()

    def full_prefix(self, model: reference.DecoderModel, tokens: Any) -> Any:
        """The model's own pass without a cache, [B,T] to [B,T,V]."""
        return reference.full_prefix(model, tokens)

    def update_parameters(self, model: reference.DecoderModel, values: Mapping[str, Any]) -> None:
        """New numbers in place; refused while a session is open."""
        with rejecting(_carried):
            model.update(values)

    def rewire(
        self,
        model: reference.DecoderModel,
        *,
        config: DecoderConfig | None = None,
        fresh: Iterable[str] = (),
    ) -> reference.DecoderModel:
        """A model of the same nodes, but for those named in `fresh`."""
        return model.rewired(config=None if config is None else reference_config(config), fresh=fresh)

    def reopen(
        self, session: reference.DecoderSession, model: reference.DecoderModel
    ) -> reference.DecoderSession:
        """A session of these caches on this model, if the model is what it was when they were built."""
        with rejecting(_carried):
            return reference.DecoderSession(model, session.cache)


def numpy_decoder() -> NumpyDecoderAdapter:
    """The built-in adapter `numpy-decoder`."""
    return NumpyDecoderAdapter()


def reference_config(config: DecoderConfig) -> reference.DecoderConfig:
    """The configuration in the words of the reference, which knows nothing of this package."""
    own = config.layer
    rope = layer_reference.RopeConfig(own.rope.base, own.rope.pairing, own.rope.max_positions)
    layer = layer_reference.LayerConfig(own.model_width, own.heads, own.kv_heads, own.head_width, rope)
    return reference.DecoderConfig(
        config.vocabulary, config.layers, layer, config.feed_forward_width, config.norm_epsilon,
        config.positions, config.tied, config.biases,
    )  # fmt: skip


def _carried(refusal: layer_errors.CacheError) -> dict[str, Any]:
    if isinstance(refusal, layer_errors.StepError):
        return {**_carried(refusal.cause), "stage": refusal.stage}
    found = {WORDS[part.name]: getattr(refusal, part.name) for part in fields(refusal) if part.name in WORDS}
    if refusal.kind in ("stale_parameters", "input_batch_mismatch"):
        expected, actual = refusal.carried()[-2:]
        found |= {"expected": expected, "found": actual}
    return found
