"""Decoders that keep too much over a reset, mix lanes, keep the caller's arrays, or count wrongly."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_decoder_state import DECODE, Array, Call, OpenSession, prompt_first, without


@killer("decoder_phase_survives_reset", fault="RESET-KEEPS-LENGTH", violates="DECODE-RESET-PHASE",
        level="decoder", says="after a reset a decode is still taken")
class _PhaseSurvives(OpenDecoderAdapter):
    decode_checks = without(DECODE, prompt_first)

    def decode(self, session: OpenSession, tokens: Array) -> Array:
        if not session.prefilled and "once" not in session.notes:
            prompt_first(session, tokens)
        return super().decode(session, tokens)

    def advance(self, call: Call) -> None:
        super().advance(call)
        call.session.notes["once"] = True


@killer("decoder_work_survives_reset", fault="RESET-KEEPS-LENGTH", violates="DECODE-RESET-WORK",
        level="decoder", says="a reset keeps the work counts")
class _WorkSurvives(OpenDecoderAdapter):
    def reset(self, session: OpenSession) -> None:
        work = session.work
        super().reset(session)
        session.work = work


@killer("decoder_reset_clears", fault="RESET-KEEPS-LENGTH", violates="DECODE-RESET-STORAGE", level="decoder",
        says="a reset writes zeros into every buffer")
class _ResetClears(OpenDecoderAdapter):
    def reset(self, session: OpenSession) -> None:
        super().reset(session)
        for buffer in (*session.keys, *session.values):
            buffer[...] = 0.0


@killer("decoder_reset_rebuilds_last_layer", fault="RESET-KEEPS-LENGTH", violates="DECODE-RESET-STORAGE",
        level="decoder", says="a reset builds the cache of the last layer anew")
class _ResetRebuilds(OpenDecoderAdapter):
    def reset(self, session: OpenSession) -> None:
        super().reset(session)
        session.notes.setdefault("old", []).append(session.keys[-1])
        session.keys[-1] = session.keys[-1].copy()


@killer("decoder_old_rows_seen_after_reset", fault="RESET-KEEPS-LENGTH", violates="DECODE-RESET-INFLUENCE",
        level="decoder", says="the first decode after a reset mixes in a row beyond the length")
class _OldRowsSeen(OpenDecoderAdapter):
    def reset(self, session: OpenSession) -> None:
        session.notes["old"] = session.lengths[0]
        super().reset(session)

    def retained(self, call: Call, block: int, what: str) -> Array:
        rows = super().retained(call, block, what)
        old = call.session.notes.get("old", 0)
        if call.is_prefill or old <= call.start + 1:
            return rows
        stale: Array = getattr(call.session, what)[block][:, :, old - 1 : old]
        return np.concatenate([rows[:, :, :-1], stale], axis=2)


@killer("decoder_reset_leaves_one_row", fault="ROLLBACK-NOOP", violates="DECODE-RESET-LENGTH",
        level="decoder", says="a reset leaves one row in every layer")
class _LeavesOneRow(OpenDecoderAdapter):
    def reset(self, session: OpenSession) -> None:
        lengths = session.lengths
        super().reset(session)
        session.lengths = [min(length, 1) for length in lengths]


@killer("decoder_replay_from_memory", fault="KEY-INCOMPLETE", violates="DECODE-RESET-INFLUENCE",
        level="decoder", says="logits of decodes are remembered by the length alone, also over a reset")
class _ReplayFromMemory(OpenDecoderAdapter):
    def logits(self, call: Call, normed: Array) -> Array:
        known = call.session.notes.setdefault("known", {})
        if call.is_prefill:
            return super().logits(call, normed)
        if call.start not in known:
            known[call.start] = super().logits(call, normed)
        made: Array = known[call.start]
        return made.copy()


@killer("decoder_newest_row_overwritten", fault="WRITE-SLOT-SHIFT", violates="DECODE-EARLIER-ROWS",
        level="decoder", says="a decode writes its row over the newest one as well as behind it")
class _NewestOverwritten(OpenDecoderAdapter):
    def write(self, call: Call, layer: int) -> None:
        super().write(call, layer)
        if not call.is_prefill:
            call.session.keys[layer][:, :, call.start - 1] = call.candidates[layer][0][:, :, 0]


@killer("decoder_joined_by_concatenation", fault="GROW-CORRUPT", violates="DECODE-STORAGE", level="decoder",
        says="every decode makes new buffers of the same size")
class _Joined(OpenDecoderAdapter):
    def commit(self, call: Call) -> None:
        session = call.session
        session.notes.setdefault("old", []).append((session.keys, session.values))
        session.keys = [buffer.copy() for buffer in session.keys]
        session.values = [buffer.copy() for buffer in session.values]
        super().commit(call)


@killer("decoder_lane_0_in_all", fault="BATCH-ROW-BOOKKEEPING", violates="DECODE-LANES", level="decoder",
        says="decodes take the token of lane 0 for every lane")
class _Lane0(OpenDecoderAdapter):
    def embed(self, call: Call) -> Array:
        if not call.is_prefill:
            call.tokens = np.repeat(call.tokens[:1], len(call.tokens), axis=0)
        return super().embed(call)


@killer("decoder_mean_over_lanes", fault="BLOCK-REUSE-LEAK", violates="DECODE-LANES", level="decoder",
        says="the final norm takes its mean square over all lanes")
class _MeanOverLanes(OpenDecoderAdapter):
    def logits(self, call: Call, normed: Array) -> Array:
        level = np.sqrt(np.mean(normed * normed, axis=(0, 2), keepdims=True) + 1.0)
        own = np.sqrt(np.mean(normed * normed, axis=2, keepdims=True) + 1.0)
        return super().logits(call, normed * own / level)


class _FromHistory(OpenDecoderAdapter):
    """Keeps the tokens that it was given and computes every call from them."""

    def keep(self, tokens: Array) -> Array:
        return tokens

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        kept = session.notes.setdefault("tokens", [])
        if is_prefill:
            kept.clear()
        own = self.keep(tokens)
        joined = np.concatenate([*(part for part in kept), own], axis=1)
        scratch = OpenDecoderAdapter.open(self, session.model, session.lanes, session.capacity)
        session.model.lock.sessions.remove(scratch)
        logits = _CLEAN.take(scratch, joined % session.config.vocabulary, is_prefill=True)
        kept.append(own)
        stop = joined.shape[1]
        for layer in range(session.config.layers):
            at = slice(session.lengths[layer], stop)
            session.keys[layer][:, :, at] = scratch.keys[layer][:, :, at]
            session.values[layer][:, :, at] = scratch.values[layer][:, :, at]
        self.advance(Call(session, tokens, session.lengths[0], is_prefill))
        return logits[:, -tokens.shape[1] :]


@killer("decoder_keeps_callers_tokens", fault="ALIAS-SHARED-STATE", violates="DECODE-TOKENS", level="decoder",
        says="the caller's arrays are kept as the history from which later calls are computed")
class _KeepsTokens(_FromHistory):
    pass


@killer("decoder_writes_callers_tokens", fault="READONLY-MUTATION", violates="DECODE-TOKENS", level="decoder",
        says="a call writes into the token array that it is given")
class _WritesTokens(OpenDecoderAdapter):
    def decode(self, session: OpenSession, tokens: Array) -> Array:
        logits = super().decode(session, tokens)
        tokens[...] = 0
        return logits


@killer("decoder_counts_without_prompt", fault="LEN-CAPACITY-CONFUSION", violates="DECODE-WORK",
        level="decoder", says="work counts leave out the scores of the prompt")
class _CountsWithoutPrompt(OpenDecoderAdapter):
    def count_work(self, call: Call) -> None:
        scores = call.session.work["cached_scores"]
        super().count_work(call)
        if call.is_prefill:
            call.session.work["cached_scores"] = scores


@killer("decoder_counts_one_lane", fault="BATCH-ROW-BOOKKEEPING", violates="DECODE-WORK", level="decoder",
        says="scores are counted for one lane, whatever the batch")
class _CountsOneLane(OpenDecoderAdapter):
    def count_work(self, call: Call) -> None:
        before = dict(call.session.work)
        super().count_work(call)
        for name in ("cached_scores", "complete_prefix_scores"):
            added = call.session.work[name] - before[name]
            call.session.work[name] = before[name] + added // call.session.lanes


_CLEAN = OpenDecoderAdapter()
