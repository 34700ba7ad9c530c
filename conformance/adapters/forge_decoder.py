"""forge's decoder of System 2 behind the adapter of its level: a growing store, a counter in the model.

Nothing is added that the design lacks. It has no capacity, no binding to weights, no validation and no
atomicity, and its one counter serves one session at a time; what that costs is for the report to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration, Precision
from conformance.adapters.numpy_decoder import reference_config
from conformance.values import DecoderConfig, Observation
from reference_impl.forge import ForgeDecoder
from reference_impl.store import SlotCache

Array = NDArray[Any]


@dataclass(eq=False)
class ForgeSession:
    """A conversation: the model with its counter, and a cache."""

    model: ForgeDecoder
    cache: SlotCache


class ForgeDecoderAdapter:
    """A `DecoderAdapter` over `reference_impl.forge`, in float32 as in its published check, or in float64."""

    model_class: type[ForgeDecoder] = ForgeDecoder

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.declaration = Declaration(
            name="forge" if dtype == "float32" else f"forge-{dtype}",
            levels=("decoder",),
            dtypes=(dtype,),
            features=frozenset({"gqa", "chunks", "full_prefix", "update_parameters"}),
            precision=Precision(dtype, dtype, dtype, "float64"),
            rows_per_append="any",
            capacity="growing",
        )

    def build_model(self, config: DecoderConfig, parameters: Mapping[str, Any]) -> ForgeDecoder:
        """A model with these weights and its counter at 0."""
        return self.model_class(reference_config(config), parameters, dtype=self.dtype)

    def open(self, model: ForgeDecoder, batch_size: int, capacity: int) -> ForgeSession:  # noqa: ARG002
        """An empty cache, and the counter of the model at 0; lanes and capacity are whatever comes."""
        model.reset_position()
        return ForgeSession(model, model.new_cache())

    def prefill(self, session: ForgeSession, tokens: Any) -> Array:
        """Tokens [B,T] behind whatever is held; logits [B,T,V]."""
        return session.model(tokens, session.cache)

    def decode(self, session: ForgeSession, tokens: Any) -> Array:
        """Tokens [B]; logits [B,1,V]."""
        return session.model(np.asarray(tokens)[:, None], session.cache)

    def observe(self, session: ForgeSession, layer: int) -> Observation:
        """The slot of a layer; an empty one is length 0 without arrays."""
        pair = session.cache.get(layer)
        return Observation(0) if pair is None else Observation(pair[0].shape[2], None, *pair)

    def reset(self, session: ForgeSession) -> None:
        """Both halves of a reset: the slots and the counter."""
        session.cache.reset()
        session.model.reset_position()

    def close(self, session: ForgeSession) -> None:
        """There is nothing to give up."""

    def full_prefix(self, model: ForgeDecoder, tokens: Any) -> Array:
        """The pass without a cache; it leaves the counter alone."""
        return model(tokens)

    def update_parameters(self, model: ForgeDecoder, values: Mapping[str, Any]) -> None:
        """New numbers in place, at any time: nothing is tied to the old ones."""
        for name, value in values.items():
            model.parameters[name][...] = value


def forge() -> ForgeDecoderAdapter:
    """The built-in adapter `forge`: float32."""
    return ForgeDecoderAdapter()


def forge_float64() -> ForgeDecoderAdapter:
    """The built-in adapter `forge-float64`."""
    return ForgeDecoderAdapter("float64")
