"""Decoders that count positions wrongly, or in the wrong place."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_decoder_state import Array, Call, OpenModel, OpenSession
from conformance.values import DecoderConfig


@killer("decoder_decode_at_zero", fault="POS-OFFSET-ZERO", violates="DECODE-LOGITS", level="decoder",
        says="a decoded token is placed at position 0; prompts are placed rightly")
class _DecodeAtZero(OpenDecoderAdapter):
    def positions(self, call: Call) -> Array:
        return super().positions(call) if call.is_prefill else np.zeros(1, dtype=int)


@killer("decoder_all_one_further", fault="POS-READ-AFTER-UPDATE", violates="DECODE-KEYS", level="decoder",
        says="every token stands one position too far, which rotary logits cannot show")
class _AllOneFurther(OpenDecoderAdapter):
    def positions(self, call: Call) -> Array:
        # Clipped, so that the last position of a table is read twice and nothing is raised.
        return np.clip(super().positions(call) + 1, 0, call.model.config.layer.rope.max_positions - 1)


@killer("decoder_table_one_off", fault="POS-OFFSET-DRIFT", violates="DECODE-LEARNED", level="decoder",
        says="a learned position table is read one row too far by decodes; rotation is right")
class _TableOneOff(OpenDecoderAdapter):
    def embed(self, call: Call) -> Array:
        rows = super().embed(call)
        if call.model.config.positions != "learned" or call.is_prefill:
            return rows
        table, at = call.model.value("position_embedding.weight"), self.positions(call)
        moved: Array = rows - table[at] + table[np.clip(at + 1, 0, len(table) - 1)]
        return moved


@killer("decoder_table_and_rotation", fault="ROPE-DOUBLE-APPLY", violates="DECODE-LEARNED", level="decoder",
        says="queries and keys are rotated although positions come from a learned table")
class _TableAndRotation(OpenDecoderAdapter):
    def rotates(self, config: DecoderConfig) -> bool:
        return True


@killer("decoder_counter_survives_reset", fault="RESET-KEEPS-POSITION", violates="DECODE-RESET-REPLAY",
        level="decoder", says="positions come from a counter beside the lengths that a reset forgets")
class _CounterSurvivesReset(OpenDecoderAdapter):
    def positions(self, call: Call) -> Array:
        last = call.model.config.layer.rope.max_positions - 1
        return np.minimum(call.session.counter + np.arange(call.count), last)

    def reset(self, session: OpenSession) -> None:
        counter = session.counter
        super().reset(session)
        session.counter = counter


class _CountedByModel(OpenDecoderAdapter):
    """The counter lives in the model, as forge's does; a new session sets it to 0."""

    def open(self, model: OpenModel, batch_size: int, capacity: int) -> OpenSession:
        model.counter = 0
        return super().open(model, batch_size, capacity)

    def positions(self, call: Call) -> Array:
        last = call.model.config.layer.rope.max_positions - 1
        return np.minimum(call.model.counter + np.arange(call.count), last)

    def advance(self, call: Call) -> None:
        super().advance(call)
        call.model.counter += call.count

    def reset(self, session: OpenSession) -> None:
        super().reset(session)
        session.model.counter = 0


@killer("decoder_counter_of_model", fault="ALIAS-SHARED-STATE", violates="DECODE-SESSIONS", level="decoder",
        says="the position counter lives in the model, so that two sessions move each other's")
class _CounterOfModel(_CountedByModel):
    pass


@killer("decoder_own_pass_moves_counter", fault="READONLY-MUTATION", violates="DECODE-OWN-PASS-APART",
        level="decoder", says="a pass without the cache moves the counter that cached calls read")
class _OwnPassMovesCounter(_CountedByModel):
    def full_prefix(self, model: OpenModel, tokens: Array) -> Array:
        logits = super().full_prefix(model, tokens)
        model.counter += tokens.shape[1]
        return logits


@killer("decoder_own_pass_reads_counter", fault="POS-OFFSET-DRIFT", violates="DECODE-OWN-PASS",
        level="decoder", says="a pass without the cache starts at the counter of the cached calls")
class _OwnPassReadsCounter(_CountedByModel):
    def full_prefix(self, model: OpenModel, tokens: Array) -> Array:
        counter, shifted = model.counter, _Shifted()
        session = OpenDecoderAdapter.open(self, model, len(tokens), tokens.shape[1])
        model.lock.sessions.remove(session)
        shifted.by = min(counter, model.config.layer.rope.max_positions - tokens.shape[1])
        return shifted.take(session, tokens, is_prefill=True)


class _Shifted(OpenDecoderAdapter):
    by = 0

    def positions(self, call: Call) -> Array:
        return super().positions(call) + self.by


@killer("decoder_positions_of_prompt_kept", fault="POS-OFFSET-DRIFT", violates="DECODE-PARTITIONS",
        level="decoder", says="decodes after a prompt of one token stay at position 1")
class _PositionsOfPromptKept(OpenDecoderAdapter):
    def positions(self, call: Call) -> Array:
        if call.is_prefill:
            call.session.notes["prompt"] = call.count
        stuck = not call.is_prefill and call.session.notes.get("prompt") == 1
        return np.ones(1, dtype=int) if stuck else super().positions(call)
