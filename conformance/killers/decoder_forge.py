"""forge's decoder with the mistakes that its own chapter names, and the traps of its two-part reset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.adapters.forge_decoder import ForgeDecoderAdapter, ForgeSession
from conformance.killers.model import killer
from reference_impl.forge import ForgeDecoder
from reference_impl.store import Pair


class _Forge(ForgeDecoderAdapter):
    """In float64, where a mistake has the most room to show."""

    name = "forge"

    def __init__(self) -> None:
        super().__init__("float64")
        self._declaration = self.declaration

    @property
    def declaration(self) -> Declaration:
        """As the class stands."""
        return replace(self._declaration, name=self.name)

    @declaration.setter
    def declaration(self, given: Declaration) -> None:
        self._declaration = given


@killer("forge_cache_reset_alone", fault="RESET-KEEPS-POSITION", violates="DECODE-RESET-REPLAY",
        level="decoder", says="the cache is reset and the model's counter is not")
class _CacheAlone(_Forge):
    def reset(self, session: ForgeSession) -> None:
        session.cache.reset()


@killer("forge_counter_reset_alone", fault="RESET-KEEPS-LENGTH", violates="DECODE-RESET-LENGTH",
        level="decoder", says="the model's counter is reset and the cache is not")
class _CounterAlone(_Forge):
    def reset(self, session: ForgeSession) -> None:
        session.model.reset_position()


class _WrongPlaceDecoder(ForgeDecoder):
    def _attention(self, at: str, rows: Any, past: Pair | None, start: int, mask: Any) -> Any:
        attended, pair = super()._attention(at, rows, past, start, mask)
        if past is None:
            return attended, pair
        count = rows.shape[1]
        turned = tuple(np.concatenate([part[:, :, -count:], part[:, :, :-count]], axis=2) for part in pair)
        return attended, turned


@killer("forge_appended_in_front", fault="WRITE-SLOT-SHIFT", violates="DECODE-EARLIER-ROWS", level="decoder",
        says="new rows are kept in front of the old ones, which attention, blind to order, does not show")
class _AppendedInFront(_Forge):
    model_class = _WrongPlaceDecoder


class _MiscountedDecoder(ForgeDecoder):
    def __call__(self, tokens: Any, cache: Any = None) -> Any:
        logits = super().__call__(tokens, cache)
        if cache is not None and self.position > 1:
            self.position = min(self.position + 1, self.config.layer.rope.max_positions - 1)
        return logits


@killer("forge_position_miscounted", fault="POS-OFFSET-DRIFT", violates="DECODE-SELF-AGREEMENT",
        level="decoder", says="the counter moves one too far from the second token on")
class _Miscounted(_Forge):
    model_class = _MiscountedDecoder


class _NeverWrittenDecoder(ForgeDecoder):
    def _block(self, block: int, rows: Any, past: Pair | None, start: int, mask: Any) -> Any:
        after, pair = super()._block(block, rows, past, start, mask)
        return after, past if past is not None and block == 1 else pair


@killer("forge_write_never_happens", fault="WRITE-SKIPPED", violates="DECODE-SELF-AGREEMENT", level="decoder",
        says="one layer keeps the rows of its first call only")
class _NeverWritten(_Forge):
    model_class = _NeverWrittenDecoder


class _TopLeftDecoder(ForgeDecoder):
    def _attention(self, at: str, rows: Any, past: Pair | None, start: int, mask: Any) -> Any:
        count = rows.shape[1]
        top_left = None if count == 1 else np.tri(count, start + count, dtype=bool)
        return super()._attention(at, rows, past, start, top_left)


@killer("forge_mask_top_left", fault="MASK-TOPLEFT-CHUNK", violates="DECODE-CHUNKS", level="decoder",
        says="a later part of a prompt is masked as if it were the first")
class _TopLeft(_Forge):
    model_class = _TopLeftDecoder
