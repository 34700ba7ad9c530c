"""Level attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.adapter import Declaration, Precision
from conformance.killers.controls.model import control
from conformance.killers.controls.softmax import online
from conformance.killers.open_attention import OpenAttentionAdapter
from conformance.killers.open_state import Array, OpenCache, Work
from conformance.values import Observation


@control("open_attention", says="the open attention as it stands", level="attention")
class _Clean(OpenAttentionAdapter):
    pass


@control("attention_online", says="one pass over blocks of positions", level="attention")
class _Online(OpenAttentionAdapter):
    def heads(self, work: Work) -> Array:
        return online(self.masked(work), self.grouped_values(work))


@control(
    "attention_scale_split", says="the root of the scale is applied to query and keys", level="attention"
)
class _ScaleSplit(OpenAttentionAdapter):
    def scores(self, work: Work) -> Array:
        root = np.sqrt(self.scale(work))
        return (work.stages["rotated_query"] * root) @ (self.grouped_keys(work) * root).swapaxes(-1, -2)


@control("attention_float32", says="everything is float32", strict=False, level="attention")
class _Float32(OpenAttentionAdapter):
    storage_dtype = np.float32
    precision = Precision(storage="float32", arithmetic="float32", softmax="float32")

    @property
    def declaration(self) -> Declaration:
        return replace(super().declaration, dtypes=("float32",))


@control("attention_growing", says="past rows are joined with new ones, into arrays that grow", strict=False,
         level="attention")  # fmt: skip
class _Growing(OpenAttentionAdapter):
    dropped = ("room",)

    @property
    def declaration(self) -> Declaration:
        made = super().declaration
        return replace(made, capacity="growing", features=made.features - {"storage", "poison"})

    def write(self, work: Work) -> None:
        cache = work.cache
        cache.keys = np.concatenate([cache.keys[:, :, : work.start], self.stored_keys(work)], axis=2)
        cache.values = np.concatenate([cache.values[:, :, : work.start], self.stored_values(work)], axis=2)

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return Observation(shown.length, None, shown.keys, shown.values)
