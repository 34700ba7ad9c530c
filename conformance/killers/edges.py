"""Edges of stores and decoders: what a fork, a reset, a refusal or a pass of its own leaves behind."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_decoder_state import Array, OpenModel, OpenSession
from conformance.killers.open_store import OpenStoreAdapter, Store
from conformance.rejections import Rejected
from conformance.values import Observation


def _move(part: list[Array]) -> None:
    """Every number of these buffers is the next one upwards."""
    for buffer in part:
        buffer[...] = np.nextafter(buffer, np.inf)


@killer(
    "store_fork_starts_shorter",
    fault="FORK-LOSES-STATE",
    violates="FORK-EQUAL",
    level="store",
    says="a fork lacks the newest row",
)
class _ForkShorter(OpenStoreAdapter):
    def fork(self, store: Store) -> Store:
        child = super().fork(store)
        child.lengths = [max(length - 1, 0) for length in child.lengths]
        return child


@killer(
    "store_fork_moves_keys",
    fault="FORK-LOSES-STATE",
    violates="FORK-EQUAL",
    level="store",
    says="the keys of a fork differ from those of its origin in their last bits",
)
class _ForkMovesKeys(OpenStoreAdapter):
    def fork(self, store: Store) -> Store:
        child = super().fork(store)
        _move(child.keys)
        return child


@killer(
    "store_reorder_shortens",
    fault="BATCH-REORDER",
    violates="REORDER-LANES",
    level="store",
    says="a reorder loses the newest row",
)
class _ReorderShortens(OpenStoreAdapter):
    def reorder(self, store: Store, lanes: list[int]) -> None:
        super().reorder(store, lanes)
        store.lengths = [max(length - 1, 0) for length in store.lengths]


@killer(
    "store_reset_grows",
    fault="RESET-TOUCHES-STORAGE",
    violates="RESET-CAPACITY",
    level="store",
    says="after a reset one row more is taken than was asked for",
)
class _ResetGrows(OpenStoreAdapter):
    def reset(self, store: Store) -> None:
        super().reset(store)
        store.capacity += 1
        for part in (store.keys, store.values):
            part[:] = [np.concatenate([buffer, buffer[:, :, :1]], axis=2) for buffer in part]


@killer(
    "decoder_own_pass_moves_rows",
    fault="READONLY-MUTATION",
    violates="DECODE-OWN-PASS-APART",
    level="decoder",
    says="a pass without the cache moves the rows of open sessions by their last bits",
)
class _OwnPassMoves(OpenDecoderAdapter):
    def full_prefix(self, model: OpenModel, tokens: Array) -> Array:
        for session in model.lock.sessions:
            _move(session.keys)
        return super().full_prefix(model, tokens)


@killer(
    "decoder_whole_prompt_refused",
    fault="FULL-OVERRUN",
    violates="DECODE-REFUSE-LONG-PROMPT",
    level="decoder",
    says="a prompt that fills the session exactly is refused",
)
class _WholePromptRefused(OpenDecoderAdapter):
    def prefill(self, session: OpenSession, tokens: Array) -> Array:
        if tokens.ndim == 2 and tokens.shape[1] == session.capacity:
            raise Rejected("prompt_exceeds_capacity", "no slot is left for a token to come")
        return super().prefill(session, tokens)


@killer(
    "decoder_lock_never_opens",
    fault="STALE-WEIGHTS",
    violates="DECODE-REFUSE-LOCKED",
    level="decoder",
    says="parameters stay locked after the last session was closed",
)
class _LockNeverOpens(OpenDecoderAdapter):
    def close(self, session: OpenSession) -> None:
        super().close(session)
        session.model.counter += 1

    def locked(self, model: OpenModel) -> bool:
        return model.counter > 0 or super().locked(model)


class _RefusedReopen(OpenDecoderAdapter):
    """Does something to the caches of a session that is not reopened."""

    def reopen(self, session: OpenSession, model: OpenModel) -> OpenSession:
        try:
            return super().reopen(session, model)
        except Rejected:
            self.refused(session)
            raise

    def refused(self, session: OpenSession) -> None:
        """What is done."""
        raise NotImplementedError


@killer(
    "decoder_refused_reopen_moves_keys",
    fault="FAIL-NOT-ATOMIC",
    violates="DECODE-REFUSE-MODEL",
    level="decoder",
    says="a session that is not reopened under another model has its keys moved by their last bits",
)
class _ReopenMovesKeys(_RefusedReopen):
    def refused(self, session: OpenSession) -> None:
        _move(session.keys)


@killer(
    "decoder_refused_reopen_moves_values",
    fault="FAIL-NOT-ATOMIC",
    violates="DECODE-REFUSE-CONFIGURATION",
    level="decoder",
    says="a session that is not reopened under another configuration has its values moved by their last bits",
)
class _ReopenMovesValues(_RefusedReopen):
    def refused(self, session: OpenSession) -> None:
        _move(session.values)


@killer(
    "decoder_refused_reopen_locks_out",
    fault="FAIL-NOT-ATOMIC",
    violates="DECODE-REFUSE-MODEL",
    level="decoder",
    says="after one refusal the caches are reopened under no model any more",
)
class _ReopenLocksOut(_RefusedReopen):
    def reopen(self, session: OpenSession, model: OpenModel) -> OpenSession:
        if "refused" in session.notes:
            raise Rejected("model_mismatch", "these caches were refused before")
        return super().reopen(session, model)

    def refused(self, session: OpenSession) -> None:
        session.notes["refused"] = True


@killer(
    "decoder_rows_follow_tokens",
    fault="ALIAS-SHARED-STATE",
    violates="DECODE-TOKENS",
    level="decoder",
    says="the rows that are shown follow later changes of the caller's tokens",
)
class _RowsFollowTokens(OpenDecoderAdapter):
    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        made = super().take(session, tokens, is_prefill=is_prefill)
        session.notes["tokens"] = tokens, tokens.copy()
        return made

    def observe(self, session: OpenSession, layer: int) -> Observation:
        shown = super().observe(session, layer)
        given, taken = session.notes.get("tokens", (0, 0))
        if np.array_equal(given, taken):
            return shown
        return Observation(**{**vars(shown), "keys": shown.keys + 1.0})
