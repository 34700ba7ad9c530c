"""Decoders that refuse too little, under another name, in another order, or not without damage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_decoder_state import (
    BINDING,
    DECODE,
    PREFILL,
    Array,
    Call,
    OpenModel,
    OpenSession,
    empty_session,
    form,
    not_empty_prompt,
    open_session,
    prompt_first,
    room,
    same_configuration,
    same_nodes,
    same_revisions,
    short_prompt,
    vocabulary,
    without,
)
from conformance.rejections import Rejected


@killer("decoder_empty_prompt_taken", fault="PREFIX-FULL-HIT", violates="DECODE-REFUSE-EMPTY-PROMPT",
        level="decoder", says="a prompt without a token is taken and the session counts as filled")
class _EmptyPrompt(OpenDecoderAdapter):
    prefill_checks = without(PREFILL, not_empty_prompt)

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        if tokens.shape[1]:
            return super().take(session, tokens, is_prefill=is_prefill)
        session.prefilled = True
        return np.zeros((session.lanes, 0, session.config.vocabulary))


@killer("decoder_long_prompt_cut", fault="FULL-OVERRUN", violates="DECODE-REFUSE-LONG-PROMPT",
        level="decoder", says="a prompt that is too long loses its first tokens")
class _LongPrompt(OpenDecoderAdapter):
    prefill_checks = without(PREFILL, short_prompt)

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        return super().take(session, tokens[:, -session.capacity :], is_prefill=is_prefill)


@killer("decoder_negative_tokens", fault="FULL-OVERRUN", violates="DECODE-REFUSE-TOKEN", level="decoder",
        says="negative tokens are read from the end of the embedding")
class _NegativeTokens(OpenDecoderAdapter):
    prefill_checks = without(PREFILL, vocabulary)
    decode_checks = without(DECODE, vocabulary)

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        vocabulary(session, np.maximum(tokens, 0))
        return super().take(session, tokens % session.config.vocabulary, is_prefill=is_prefill)


@killer("decoder_tokens_clipped", fault="FULL-OVERRUN", violates="DECODE-REFUSE-TOKEN", level="decoder",
        says="a token outside the vocabulary is taken for the last one")
class _Clipped(OpenDecoderAdapter):
    prefill_checks = without(PREFILL, vocabulary)
    decode_checks = without(DECODE, vocabulary)

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        inside = np.clip(tokens, 0, session.config.vocabulary - 1)
        return super().take(session, inside, is_prefill=is_prefill)


@killer("decoder_lanes_broadcast", fault="LAYOUT-STRIDE", violates="DECODE-REFUSE-FORM", level="decoder",
        says="tokens for one lane are taken for all lanes")
class _Broadcast(OpenDecoderAdapter):
    prefill_checks = without(PREFILL, form)
    decode_checks = without(DECODE, form)

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        if tokens.ndim == 2 and len(tokens) == 1:
            tokens = np.repeat(tokens, session.lanes, axis=0)
        form(session, tokens)
        return super().take(session, tokens, is_prefill=is_prefill)


@killer("decoder_second_prompt_replaces", fault="UPDATE-NOT-VISIBLE",
        violates="DECODE-REFUSE-SECOND-PREFILL", level="decoder",
        says="a second prompt silently takes the place of the first")
class _SecondPrompt(OpenDecoderAdapter):
    prefill_checks = without(PREFILL, empty_session)

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        if is_prefill:
            session.lengths = [0] * len(session.lengths)
        return super().take(session, tokens, is_prefill=is_prefill)


@killer("decoder_decode_first", fault="POS-OFFSET-ZERO", violates="DECODE-REFUSE-DECODE-FIRST",
        level="decoder", says="a decode into an empty session is taken as a prompt of one token")
class _DecodeFirst(OpenDecoderAdapter):
    decode_checks = without(DECODE, prompt_first)


@killer("decoder_ring_when_full", fault="FULL-OVERRUN", violates="DECODE-REFUSE-FULL", level="decoder",
        says="a full session writes over its oldest row")
class _Ring(OpenDecoderAdapter):
    decode_checks = without(DECODE, room)

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        if session.lengths[0] + tokens.shape[1] > session.capacity:
            for buffer in (*session.keys, *session.values):
                buffer[:, :, :-1] = buffer[:, :, 1:].copy()
            session.lengths = [session.capacity - 1] * len(session.lengths)
        return super().take(session, tokens, is_prefill=is_prefill)


@killer("decoder_closed_goes_on", fault="READONLY-MUTATION", violates="DECODE-REFUSE-CLOSED", level="decoder",
        says="a closed session can still be reset and prefilled")
class _ClosedGoesOn(OpenDecoderAdapter):
    prefill_checks = without(PREFILL, open_session)

    def check_open(self, session: OpenSession) -> None:
        pass


@killer("decoder_lock_ignored", fault="STALE-WEIGHTS", violates="DECODE-REFUSE-LOCKED", level="decoder",
        says="parameters are updated although a session is open")
class _LockIgnored(OpenDecoderAdapter):
    def locked(self, model: OpenModel) -> bool:
        return False


@killer("decoder_lock_of_one_session", fault="STALE-WEIGHTS", violates="DECODE-REFUSE-LOCKED",
        level="decoder", says="the lock is a flag that the first session to close takes away")
class _LockOfOne(OpenDecoderAdapter):
    def close(self, session: OpenSession) -> None:
        super().close(session)
        session.model.lock.sessions.clear()


@killer("decoder_lock_after_writing", fault="FAIL-NOT-ATOMIC", violates="DECODE-REFUSE-LOCKED",
        level="decoder", says="an update is refused after the numbers have been written")
class _LockAfterWriting(OpenDecoderAdapter):
    def update_parameters(self, model: OpenModel, values: Mapping[str, Array]) -> None:
        for name, value in values.items():
            model.nodes[name].value[...] = value
        super().update_parameters(model, values)


@killer("decoder_revisions_not_compared", fault="STALE-WEIGHTS", violates="DECODE-REFUSE-STALE",
        level="decoder", says="caches are reopened whatever has been updated since")
class _RevisionsIgnored(OpenDecoderAdapter):
    binding_checks = without(BINDING, same_revisions)


@killer("decoder_attention_revisions_only", fault="STALE-WEIGHTS", violates="DECODE-REFUSE-STALE",
        level="decoder", says="only the revisions of attention weights are compared")
class _AttentionRevisions(OpenDecoderAdapter):
    def reopen(self, session: OpenSession, model: OpenModel) -> OpenSession:
        session.revisions = {
            name: revision if ".attention." in name else model.nodes[name].revision
            for name, revision in session.revisions.items()
        }
        return super().reopen(session, model)


@killer("decoder_numbers_compared", fault="STALE-WEIGHTS", violates="DECODE-REFUSE-STALE", level="decoder",
        says="parameters are compared by their numbers: an update with equal ones goes unnoticed")
class _NumbersCompared(OpenDecoderAdapter):
    def open(self, model: OpenModel, batch_size: int, capacity: int) -> OpenSession:
        session = super().open(model, batch_size, capacity)
        session.notes["numbers"] = {name: node.value.copy() for name, node in model.nodes.items()}
        return session

    def reopen(self, session: OpenSession, model: OpenModel) -> OpenSession:
        for name, numbers in session.notes["numbers"].items():
            if np.array_equal(numbers, model.nodes[name].value):
                session.revisions[name] = model.nodes[name].revision
        return super().reopen(session, model)


@killer("decoder_closed_decodes_on_new_weights", fault="STALE-WEIGHTS", violates="DECODE-REFUSE-STALE",
        level="decoder", says="a closed session decodes on, old rows beside new weights")
class _ClosedDecodes(OpenDecoderAdapter):
    decode_checks = without(DECODE, open_session)


@killer("decoder_any_equal_model", fault="STALE-WEIGHTS", violates="DECODE-REFUSE-MODEL", level="decoder",
        says="a rebuilt model of equal numbers is taken for the same")
class _AnyEqualModel(OpenDecoderAdapter):
    binding_checks = without(BINDING, same_nodes)


@killer("decoder_block_nodes_only", fault="STALE-WEIGHTS", violates="DECODE-REFUSE-MODEL", level="decoder",
        says="only parameters of blocks are compared by identity")
class _BlockNodesOnly(OpenDecoderAdapter):
    def reopen(self, session: OpenSession, model: OpenModel) -> OpenSession:
        session.nodes = {
            name: node if name.startswith("blocks.") else model.nodes[name]
            for name, node in session.nodes.items()
        }
        return super().reopen(session, model)


@killer("decoder_configuration_not_compared", fault="KEY-INCOMPLETE",
        violates="DECODE-REFUSE-CONFIGURATION", level="decoder",
        says="caches are reopened under another epsilon or rotation, since the parameters are the same")
class _AnyConfiguration(OpenDecoderAdapter):
    binding_checks = without(BINDING, same_configuration)


@killer("decoder_configuration_by_shape", fault="KEY-INCOMPLETE", violates="DECODE-REFUSE-CONFIGURATION",
        level="decoder", says="of two configurations only the shapes are compared")
class _ConfigurationByShape(OpenDecoderAdapter):
    def reopen(self, session: OpenSession, model: OpenModel) -> OpenSession:
        own, other = session.config.layer, model.config.layer
        if (own.heads, own.kv_heads, own.head_width) == (other.heads, other.kv_heads, other.head_width):
            session.config = model.config
        return super().reopen(session, model)


@killer("decoder_token_checked_last", fault="FAIL-NOT-ATOMIC", violates="DECODE-REFUSE-ORDER",
        level="decoder", says="the vocabulary is checked after the state of the session")
class _TokenLast(OpenDecoderAdapter):
    prefill_checks = (*without(PREFILL, vocabulary), vocabulary)
    decode_checks = (*without(DECODE, vocabulary), vocabulary)


@killer("decoder_revision_before_model", fault="FAIL-NOT-ATOMIC", violates="DECODE-REFUSE-ORDER",
        level="decoder", says="revisions are compared before identities and configuration")
class _RevisionFirst(OpenDecoderAdapter):
    binding_checks = (same_revisions, *without(BINDING, same_revisions))


@killer("decoder_parameter_counted_from_1", fault="LEN-CAPACITY-CONFUSION", violates="DECODE-REFUSE-DETAILS",
        level="decoder", says="a stale parameter is named by a number counted from 1")
class _CountedFrom1(OpenDecoderAdapter):
    def reopen(self, session: OpenSession, model: OpenModel) -> OpenSession:
        try:
            return super().reopen(session, model)
        except Rejected as refusal:
            if refusal.parameter is not None:
                refusal.parameter += 1
            raise


@killer("decoder_hidden_overflow_zeroed", fault="FAIL-NOT-ATOMIC", violates="DECODE-REFUSE-BLOCK",
        level="decoder", says="inner features that overflow are set to zero")
class _HiddenZeroed(OpenDecoderAdapter):
    def feed_forward(self, call: Call, at: str, normed: Array) -> Array:
        gate, up = (self.project(call.model, f"{at}.ffn.{name}", normed) for name in ("gate", "up"))
        hidden = np.nan_to_num(self.activation(gate) * up, nan=0.0, posinf=0.0, neginf=0.0)
        return self.project(call.model, f"{at}.ffn.down", hidden)


@killer("decoder_norm_overflow_zeroed", fault="FAIL-NOT-ATOMIC", violates="DECODE-REFUSE-NORM",
        level="decoder", says="features that overflow in the final norm are set to zero")
class _NormZeroed(OpenDecoderAdapter):
    def norm(self, model: OpenModel, name: str, rows: Array) -> Array:
        normed = super().norm(model, name, rows)
        cleaned: Array = np.nan_to_num(normed, nan=0.0, posinf=0.0, neginf=0.0)
        return cleaned if name == "final_norm" else normed


@killer("decoder_logits_not_checked", fault="FAIL-NOT-ATOMIC", violates="DECODE-REFUSE-HEAD",
        level="decoder", says="nobody looks whether logits are finite")
class _LogitsNotChecked(OpenDecoderAdapter):
    def logits(self, call: Call, normed: Array) -> Array:
        made: Array = normed @ self.head(call.model)
        return made


@killer("decoder_counts_refused_calls", fault="FAIL-NOT-ATOMIC", violates="DECODE-ATOMIC-WORK",
        level="decoder", says="work is counted before the last check")
class _CountsRefused(OpenDecoderAdapter):
    def compute(self, call: Call) -> Array:
        self.count_work(call)
        return super().compute(call)

    def advance(self, call: Call) -> None:
        work = dict(call.session.work)
        super().advance(call)
        call.session.work = work


@killer("decoder_refusal_moves_counter", fault="FAIL-NOT-ATOMIC", violates="DECODE-ATOMIC-FUTURE",
        level="decoder", says="a refused token leaves the position counter one further")
class _RefusalMovesCounter(OpenDecoderAdapter):
    def positions(self, call: Call) -> Array:
        last = call.model.config.layer.rope.max_positions - 1
        return np.clip(super().positions(call) + int(call.session.notes.get("refused", 0)), 0, last)

    def decode(self, session: OpenSession, tokens: Array) -> Array:
        try:
            return super().decode(session, tokens)
        except Rejected:
            session.notes["refused"] = session.notes.get("refused", 0) + 1
            raise
