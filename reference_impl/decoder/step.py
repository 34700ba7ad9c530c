"""One call of a decoder: every block prepared, then norm and head, then one commit for all layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reference_impl.decoder.block import checked_norm, prepare_block
from reference_impl.decoder.cache import DecoderCache
from reference_impl.decoder.checks import Tokens, check_decode, check_prefill
from reference_impl.decoder.model import DecoderModel
from reference_impl.layer import Ticket, commit_all
from reference_impl.layer.memory import Array
from reference_impl.layer.stages import Stages


@dataclass(frozen=True, eq=False)
class PreparedTokens:
    """A call that has been computed and not yet written: logits [B,T,V] and one ticket per layer."""

    logits: Array
    tickets: Sequence[Ticket]


def prefill(model: DecoderModel, cache: DecoderCache, prompt: ArrayLike) -> Array:
    """Take a prompt [B,T] into an empty cache, T from 1 to the capacity; logits [B,T,V].

    The checked call: refusals are those of `check_prefill`, then StepError of the stage that failed, then
    TicketMismatchError. Each of them leaves every layer, the phase and the work counts as they were.
    """
    tokens = check_prefill(model, cache, prompt)
    return _take(model, cache, tokens, is_prefill=True)


def decode(model: DecoderModel, cache: DecoderCache, tokens: ArrayLike) -> Array:
    """Take one token per lane, tokens [B], after a completed prefill; logits [B,1,V].

    The checked call: refusals are those of `check_decode`, then as for `prefill`.
    """
    return _take(model, cache, check_decode(model, cache, tokens), is_prefill=False)


def prepare_tokens(model: DecoderModel, cache: DecoderCache, tokens: Tokens) -> PreparedTokens:
    """The calculation for tokens [B,T] at positions n to n + T - 1, for callers that have checked the call.

    Raises StepError of the stage that failed; nothing is written.
    """
    stages = Stages()
    try:
        with np.errstate(all="ignore"):
            return _calculate(stages, model, cache, tokens)
    except MemoryError as error:
        raise stages.out_of_memory() from error


def commit_tokens(cache: DecoderCache, prepared: PreparedTokens) -> None:
    """Write the rows of every layer, after every ticket has been tested.

    Raises TicketMismatchError, whose index is the layer, and then writes nothing.
    """
    commit_all(zip(cache.layers, prepared.tickets, strict=True))


def embed(model: DecoderModel, tokens: Tokens, start: int) -> Array:
    """The rows [B,T,D] that enter the first block for tokens [B,T] at positions from `start`."""
    rows: Array = model.value("token_embedding.weight")[tokens]
    if model.config.positions == "learned":
        rows = rows + model.value("position_embedding.weight")[start : start + tokens.shape[1]]
    return rows


def _take(model: DecoderModel, cache: DecoderCache, tokens: Tokens, *, is_prefill: bool) -> Array:
    start = cache.length
    prepared = prepare_tokens(model, cache, tokens)
    commit_tokens(cache, prepared)
    cache.prefilled = True
    cache.work = cache.work.after(
        batch_size=cache.batch_size,
        layers=len(cache.layers),
        heads=model.config.layer.heads,
        start=start,
        rows=tokens.shape[1],
        is_prefill=is_prefill,
    )
    return prepared.logits


def _calculate(stages: Stages, model: DecoderModel, cache: DecoderCache, tokens: Tokens) -> PreparedTokens:
    stages.enter("embedding", tokens.size * model.config.layer.model_width)
    rows = stages.finite(embed(model, tokens, cache.length))
    tickets = []
    for block, layer_cache in enumerate(cache.layers):
        rows, ticket = prepare_block(stages, model, block, layer_cache, rows)
        tickets.append(ticket)
    normed = checked_norm(stages, rows, model, "final_norm")
    stages.enter("head", tokens.size * model.config.vocabulary)
    return PreparedTokens(stages.finite(normed @ model.head()), tickets)
