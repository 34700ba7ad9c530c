"""The clean forms of the other levels, and the embedded implementations of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.adapters.numpy_decoder import NumpyDecoderAdapter, numpy_decoder
from conformance.adapters.numpy_layer import numpy, numpy_attention, numpy_chunks
from conformance.adapters.numpy_paged import numpy_paged
from conformance.adapters.numpy_store import forge_store, numpy_store
from conformance.killers.controls.model import control, register
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_store import OpenStoreAdapter


@control("open_store", says="the open store as it stands", strict=False, level="store")
class _Store(OpenStoreAdapter):
    pass


@control("open_decoder", says="the open decoder as it stands", strict=False, level="decoder")
class _Decoder(OpenDecoderAdapter):
    pass


@control(
    "decoder_last_logits",
    says="a prefill hands out the logits of its last token alone",
    strict=False,
    level="decoder",
)
class _LastLogits(NumpyDecoderAdapter):
    def __init__(self) -> None:
        super().__init__()
        self.declaration = replace(self.declaration, prefill_logits="last")

    def prefill(self, session: Any, tokens: Any) -> Any:
        return super().prefill(session, tokens)[:, -1:]


for _name, _factory, _level, _strict, _says in (
    ("numpy", numpy, "layer", True, "the embedded layer, one row a call"),
    ("numpy_chunks", numpy_chunks, "layer", True, "the embedded layer, rows in chunks"),
    ("numpy_paged", numpy_paged, "layer", False, "the embedded layer over blocks"),
    ("numpy_attention", numpy_attention, "attention", True, "the embedded attention"),
    ("numpy_store", numpy_store, "store", False, "the embedded store"),
    ("forge_store", forge_store, "store", False, "the embedded store of forge, which grows"),
    ("numpy_decoder", numpy_decoder, "decoder", False, "the embedded decoder session"),
):
    register(_name, _factory, says=_says, strict=_strict, level=_level)
