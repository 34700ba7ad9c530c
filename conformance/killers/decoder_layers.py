"""Decoders that mix their layers up, or treat them one by one where they belong together."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_decoder_state import Array, Call, OpenModel, OpenSession
from conformance.values import DecoderConfig


@killer("decoder_only_layer_0_reset", fault="RESET-KEEPS-LENGTH", violates="DECODE-RESET-LENGTH",
        level="decoder", says="a reset reaches layer 0 alone")
class _OnlyLayer0Reset(OpenDecoderAdapter):
    def reset(self, session: OpenSession) -> None:
        lengths = session.lengths
        super().reset(session)
        session.lengths = [0, *lengths[1:]]


@killer("decoder_layers_share_cache", fault="LAYER-INDEX", violates="DECODE-LAYERS-APART", level="decoder",
        says="all layers write into the buffers of layer 0")
class _LayersShareCache(OpenDecoderAdapter):
    def allocate(self, config: DecoderConfig, lanes: int, capacity: int) -> tuple[list[Array], list[Array]]:
        keys, values = super().allocate(config, lanes, capacity)
        return [keys[0]] * config.layers, [values[0]] * config.layers


@killer("decoder_reads_layer_below", fault="LAYER-INDEX", violates="DECODE-LOGITS", level="decoder",
        says="a decode reads the retained rows of the layer below; every layer is written rightly")
class _ReadsLayerBelow(OpenDecoderAdapter):
    def retained(self, call: Call, block: int, what: str) -> Array:
        return super().retained(call, max(block - 1, 0), what)


@killer("decoder_layers_written_in_reverse", fault="LAYER-INDEX", violates="DECODE-KEYS", level="decoder",
        says="rows are written to the layers in reverse order, and read back so")
class _WrittenInReverse(OpenDecoderAdapter):
    def write(self, call: Call, layer: int) -> None:
        call.candidates[layer], kept = call.candidates[-1 - layer], call.candidates[layer]
        super().write(call, layer)
        call.candidates[layer] = kept

    def retained(self, call: Call, block: int, what: str) -> Array:
        return super().retained(call, len(call.session.keys) - 1 - block, what)


@killer("decoder_length_of_layer_0_alone", fault="LAYER0-LENGTH", violates="DECODE-LENGTH", level="decoder",
        says="only layer 0 raises its length, and all others go by it")
class _LengthOfLayer0(OpenDecoderAdapter):
    def advance(self, call: Call) -> None:
        lengths = call.session.lengths
        super().advance(call)
        call.session.lengths = [call.session.lengths[0], *lengths[1:]]


@killer("decoder_last_layer_not_written", fault="WRITE-SKIPPED", violates="DECODE-VALUES", level="decoder",
        says="decodes do not write the row of the last layer")
class _LastLayerNotWritten(OpenDecoderAdapter):
    def write(self, call: Call, layer: int) -> None:
        if call.is_prefill or layer < len(call.candidates) - 1:
            super().write(call, layer)


@killer("decoder_block_by_block", fault="FAIL-NOT-ATOMIC", violates="DECODE-ATOMIC-LENGTH", level="decoder",
        says="each layer writes its rows and raises its length as soon as its block is done")
class _BlockByBlock(OpenDecoderAdapter):
    def block(self, call: Call, block: int, rows: Array) -> Array:
        rows = super().block(call, block, rows)
        super().write(call, block)
        call.session.lengths[block] = call.start + call.count
        return rows

    def held(self, session: OpenSession) -> int:
        return session.lengths[-1]


@killer("decoder_commit_before_head", fault="FAIL-NOT-ATOMIC", violates="DECODE-ATOMIC-ROWS", level="decoder",
        says="all layers are written before final norm and head are computed")
class _CommitBeforeHead(OpenDecoderAdapter):
    def logits(self, call: Call, normed: Array) -> Array:
        super().commit(call)
        return super().logits(call, normed)

    def commit(self, call: Call) -> None:
        pass


@killer("decoder_slot_before_check", fault="FAIL-NOT-ATOMIC", violates="DECODE-ATOMIC-STORAGE",
        level="decoder", says="rows are written into free slots at once; a refusal takes only lengths back")
class _SlotBeforeCheck(OpenDecoderAdapter):
    def block(self, call: Call, block: int, rows: Array) -> Array:
        rows = super().block(call, block, rows)
        self.write(call, block)
        return rows


@killer("decoder_stored_per_query_head", fault="GQA-REPEAT-ORDER", violates="DECODE-MULTI-QUERY",
        level="decoder", says="key/value heads are repeated before they are stored: H heads, not G")
class _StoredPerQueryHead(OpenDecoderAdapter):
    def stored_heads(self, config: DecoderConfig) -> int:
        return config.layer.heads

    def write(self, call: Call, layer: int) -> None:
        share = call.model.config.layer.heads // call.model.config.layer.kv_heads
        pair = call.candidates[layer]
        call.candidates[layer] = (np.repeat(pair[0], share, axis=1), np.repeat(pair[1], share, axis=1))
        super().write(call, layer)
        call.candidates[layer] = pair

    def retained(self, call: Call, block: int, what: str) -> Array:
        share = call.model.config.layer.heads // call.model.config.layer.kv_heads
        return super().retained(call, block, what)[:, ::share]


@killer("decoder_keys_as_values", fault="KV-SWAP", violates="DECODE-VALUES", level="decoder",
        says="one layer keeps its keys as values")
class _KeysAsValues(OpenDecoderAdapter):
    def write(self, call: Call, layer: int) -> None:
        super().write(call, layer)
        if layer == 1:
            at = slice(call.start, call.start + call.count)
            call.session.values[1][:, :, at] = call.candidates[1][0]


@killer("decoder_other_weights_below", fault="LAYER-INDEX", violates="DECODE-LOGITS", level="decoder",
        says="the last block takes the feed-forward weights of the first")
class _OtherWeights(OpenDecoderAdapter):
    def feed_forward(self, call: Call, at: str, normed: Array) -> Array:
        last = f"blocks.{call.model.config.layers - 1}"
        return super().feed_forward(call, "blocks.0" if at == last else at, normed)


@killer("decoder_one_cache_for_all_sessions", fault="ALIAS-SHARED-STATE", violates="DECODE-SESSIONS",
        level="decoder", says="sessions of one model that are of one size share their buffers")
class _OneCacheForAll(OpenDecoderAdapter):
    def open(self, model: OpenModel, batch_size: int, capacity: int) -> OpenSession:
        session = super().open(model, batch_size, capacity)
        for other in model.lock.sessions[:-1]:
            if (other.lanes, other.capacity) == (batch_size, capacity):
                session.keys, session.values = other.keys, other.values
        return session
