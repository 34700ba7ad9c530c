"""Greedy generation, cached and uncached, with the same three stop rules. Source: chapters 37 and 38."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from reference_impl.decoder.model import DecoderModel
from reference_impl.decoder.session import DecoderSession
from reference_impl.decoder.uncached import full_prefix
from reference_impl.layer.memory import Array

Stop = Literal["end_of_sequence", "token_limit", "context_limit"]


@dataclass(frozen=True, eq=False)
class Generation:
    """tokens: those chosen, an end-of-sequence token included; logits [len(tokens), V]: what each was
    chosen from; stop: the first rule that applied."""

    tokens: tuple[int, ...]
    logits: Array
    stop: Stop


def generate(
    session: DecoderSession, prompt: Sequence[int], *, token_limit: int, end_of_sequence: int | None = None
) -> Generation:
    """Prefill an empty session of one lane with the prompt, then decode one greedy token after another.

    After each token these rules are asked in this order: it is the end-of-sequence token; `token_limit`
    tokens, at least 1, have been chosen; prompt and chosen tokens leave no room for the next one.
    Refusals are those of `DecoderSession.prefill`. Raises ValueError for a limit below 1.
    """

    def following(tokens: list[int]) -> Array:
        fresh = len(tokens) == len(prompt)
        logits = session.prefill([tokens]) if fresh else session.decode([tokens[-1]])
        last: Array = logits[0, -1]
        return last

    return _greedy(following, prompt, token_limit, end_of_sequence, session.cache.capacity)


def generate_uncached(
    model: DecoderModel,
    prompt: Sequence[int],
    *,
    token_limit: int,
    capacity: int,
    end_of_sequence: int | None = None,
) -> Generation:
    """The same generation by one complete pass per token, with a context of `capacity` tokens."""
    return _greedy(
        lambda tokens: full_prefix(model, [tokens])[0, -1], prompt, token_limit, end_of_sequence, capacity
    )


def _greedy(
    following: Callable[[list[int]], Array],
    prompt: Sequence[int],
    token_limit: int,
    end_of_sequence: int | None,
    capacity: int,
) -> Generation:
    if token_limit < 1:
        raise ValueError(f"generate: token_limit is {token_limit}; at least 1 is needed")
    tokens, logits = list(prompt), list[Array]()
    while True:
        logits.append(following(tokens))
        # The first of equal logits wins, on both paths.
        tokens.append(int(np.argmax(logits[-1])))
        stop = _stop_rule(tokens, len(logits), token_limit, end_of_sequence, capacity)
        if stop is not None:
            return Generation(tuple(tokens[len(prompt) :]), np.stack(logits), stop)


def _stop_rule(
    tokens: list[int], chosen: int, token_limit: int, end_of_sequence: int | None, capacity: int
) -> Stop | None:
    if tokens[-1] == end_of_sequence:
        return "end_of_sequence"
    if chosen == token_limit:
        return "token_limit"
    # The last token chosen has not been taken in yet: it needs a row of its own.
    return "context_limit" if len(tokens) > capacity else None
