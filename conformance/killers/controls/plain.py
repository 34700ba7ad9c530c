"""The open layer itself, and what differs in form alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.adapter import Declaration
from conformance.killers.controls.model import control
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.killers.positions import CountingAdapter
from conformance.rejections import Rejected
from conformance.values import Observation, Step


@control("open_layer", says="the open layer as it stands")
class _Clean(OpenLayerAdapter):
    pass


@control("one_row", says="a layer that takes one row a call")
class _OneRow(OpenLayerAdapter):
    one_row = True


@control("own_counter", says="a position counter beside the length, kept rightly")
class _Counter(CountingAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        made = super().perform(layer, cache, rows)
        cache.counter = cache.length
        return made


@control("finite_checked_last", says="numbers that are not finite are looked for once, before the write")
class _CheckedLast(OpenLayerAdapter):
    finite_stages = ()

    def commit(self, work: Work) -> None:
        for stage in ("query", "key", "value", "rotated_query", "rotated_key", "scores", "output"):
            self.check_finite(stage, work)
        super().commit(work)


@control("plain_output", says="an append returns its output alone, without evidence or work", strict=False)
class _PlainOutput(OpenLayerAdapter):
    @property
    def declaration(self) -> Declaration:
        made = super().declaration
        return replace(made, features=made.features - {"evidence", "work"})

    def append(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Array:  # type: ignore[override]
        return np.asarray(super().append(layer, cache, rows).output)


class Refused(Exception):  # noqa: N818 - an implementation's own name
    """An implementation's own refusal."""


class TooMany(Refused):
    """The cache is full."""


@control("own_exceptions", says="refusals are exceptions of its own, mapped to kinds", strict=False)
class _OwnExceptions(OpenLayerAdapter):
    @property
    def declaration(self) -> Declaration:
        made = super().declaration
        return replace(made, features=made.features & {"chunks"}, rejections={TooMany: "full"})

    def append(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        try:
            return super().append(layer, cache, rows)
        except Rejected as refusal:
            if refusal.kind == "full":
                raise TooMany(refusal.message) from refusal
            raise


@control("nothing_shown", says="neither keys, values nor storage can be seen", strict=False)
class _NothingShown(OpenLayerAdapter):
    @property
    def declaration(self) -> Declaration:
        made = super().declaration
        return replace(made, features=made.features & {"fork", "reorder"}, keys="unreadable")

    def observe(self, cache: OpenCache) -> Observation:
        return Observation(cache.length)
