"""Greedy generation: cached equals uncached, tokens and logits, under each stop rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference_impl.decoder import DecoderModel, DecoderSession, Generation, generate, generate_uncached
from reference_impl.layer_errors import CacheError
from tests.decoder_models import PUBLISHED_CONFIG, config, parameters, published_parameters

PROMPT = [3, 0, 6]
Both = tuple[Generation, Generation]


def model_of(**options: Any) -> DecoderModel:
    # Weights under which greedy decoding wanders instead of repeating one token.
    of = config(**({"positions": "learned", "tied": False} | options))
    return DecoderModel.build(of, parameters(of, seed=17, size=14))


def both(model: DecoderModel, prompt: list[int], *, capacity: int = 12, **rules: Any) -> Both:
    with DecoderSession.open(model, 1, capacity) as session:
        ours = generate(session, prompt, **rules)
    return ours, generate_uncached(model, prompt, capacity=capacity, **rules)


@pytest.mark.parametrize(
    "options", [{}, {"positions": "rope", "biases": True}, {"kv_heads": 1, "tied": True}]
)
@pytest.mark.parametrize("seed_token", range(7))
def test_cached_generation_equals_uncached_generation(options: dict[str, Any], seed_token: int) -> None:
    cached, complete = both(model_of(**options), [seed_token, 2], token_limit=9)
    assert cached.tokens == complete.tokens
    assert cached.stop == complete.stop == "token_limit"
    assert cached.logits.shape == (9, 7)
    assert np.abs(cached.logits - complete.logits).max() < 1e-12


def test_generation_on_the_published_decoder() -> None:
    model = DecoderModel.build(PUBLISHED_CONFIG, published_parameters())
    cached, complete = both(model, [0, 1], capacity=4, token_limit=9)
    assert cached.tokens == complete.tokens
    assert cached.tokens[0] == 0, "the published logits after the prompt are largest at token 0"
    assert (len(cached.tokens), cached.stop) == (3, "context_limit")
    assert np.abs(cached.logits - complete.logits).max() <= 2e-12


def test_each_token_has_the_largest_of_its_logits() -> None:
    cached, _ = both(model_of(), PROMPT, token_limit=6)
    assert cached.tokens == tuple(np.argmax(cached.logits, axis=1))


def test_the_three_stop_rules_in_order() -> None:
    model = model_of()
    free, _ = both(model, PROMPT, token_limit=9)
    # A token that has not been chosen before its place, so that it stops there and not earlier.
    place = next(i for i in range(2, 9) if free.tokens[i] not in free.tokens[:i])
    end, length = free.tokens[place], place + 1
    room = len(PROMPT) + length - 1
    rules: list[tuple[dict[str, Any], int, str]] = [
        ({"end_of_sequence": end, "token_limit": length, "capacity": room}, length, "end_of_sequence"),
        ({"token_limit": length, "capacity": room}, length, "token_limit"),
        ({"token_limit": 9, "capacity": room}, length, "context_limit"),
        ({"end_of_sequence": end, "token_limit": length - 1}, length - 1, "token_limit"),
        ({"end_of_sequence": end, "token_limit": 9}, length, "end_of_sequence"),
    ]
    for rule, count, stop in rules:
        for found in both(model, PROMPT, **rule):
            assert (found.tokens, found.stop) == (free.tokens[:count], stop)


def test_a_prompt_that_fills_the_context_still_gives_one_token() -> None:
    for found in both(model_of(), PROMPT, capacity=3, token_limit=5):
        assert (len(found.tokens), found.stop) == (1, "context_limit")


def test_the_session_holds_all_but_the_last_token() -> None:
    model = model_of()
    session = DecoderSession.open(model, 1, 12)
    found = generate(session, PROMPT, token_limit=4)
    assert session.length == len(PROMPT) + len(found.tokens) - 1


def test_bad_generation_is_refused() -> None:
    session = DecoderSession.open(model_of(), 1, 4)
    with pytest.raises(ValueError, match="token_limit is 0"):
        generate(session, PROMPT, token_limit=0)
    refusals = {"empty_prompt": [], "prompt_exceeds_capacity": [0] * 5, "token_out_of_vocabulary": [7]}
    for kind, prompt in refusals.items():
        with pytest.raises(CacheError) as caught:
            generate(session, prompt, token_limit=1)
        assert caught.value.kind == kind
    assert session.length == 0
