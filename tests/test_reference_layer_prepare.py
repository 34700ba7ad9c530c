"""Prepare, then commit: tickets, what they match, and stacks that are committed together or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference_impl.layer import LayerCache, append, commit, commit_all, prepare, prepare_unchecked
from reference_impl.layer_errors import (
    CacheFullError,
    CandidateNonFiniteError,
    CandidateShapeError,
    TicketMismatchError,
)
from tests.reference_layer_samples import Array, filled, image, layer, rows


def test_prepare_computes_everything_and_changes_nothing() -> None:
    made = layer()
    cache = filled(made, 2)
    before, twin = image(cache), cache.clone()
    row = rows(made, 1, seed=4)
    prepared = prepare(made, cache, row)
    assert image(cache) == before
    commit(cache, prepared.ticket)
    step = append(made, twin, row)
    assert cache == twin
    assert prepared.result.output.tobytes() == step.output.tobytes()
    assert (prepared.result.length, prepared.result.work) == (step.length, step.work)


def test_dropping_a_ticket_costs_nothing() -> None:
    made = layer()
    cache, row = filled(made, 2), rows(made, 1, seed=4)
    dropped = prepare(made, cache, row)
    again = prepare(made, cache, row)
    assert dropped.result.output.tobytes() == again.result.output.tobytes()
    commit(cache, again.ticket)
    assert cache.length == 3


def test_a_ticket_says_what_it_expects() -> None:
    made = layer()
    cache = filled(made, 2)
    ticket = prepare(made, cache, rows(made, 3), rows_per_append="any").ticket
    assert ticket.expected_length == 2
    assert ticket.place == (2, cache.key_address, cache.value_address)
    assert ticket.keys.shape == ticket.values.shape == (2, 2, 3, 6)


def test_a_ticket_is_used_once() -> None:
    made = layer()
    cache = filled(made, 2)
    ticket = prepare(made, cache, rows(made, 1)).ticket
    commit(cache, ticket)
    cache._length = 2  # everything else matches again
    before = image(cache)
    with pytest.raises(TicketMismatchError, match="used"):
        commit(cache, ticket)
    assert image(cache) == before


def test_a_ticket_matches_by_length_and_addresses_alone() -> None:
    made = layer()
    cache = filled(made, 2)
    ticket = prepare(made, cache, rows(made, 1)).ticket
    assert ticket.matches(cache)
    assert not ticket.matches(cache.clone())
    cache._keys[:] = 5.0
    assert ticket.matches(cache)
    made.update({"key": made.node("key").value})
    assert ticket.matches(cache)
    cache.reset()
    assert not ticket.matches(cache)


@pytest.mark.parametrize("address", ["_key_address", "_value_address"])
def test_a_ticket_does_not_match_when_one_buffer_has_moved(address: str) -> None:
    made = layer()
    cache = filled(made, 2)
    ticket = prepare(made, cache, rows(made, 1)).ticket
    setattr(cache, address, getattr(cache, address) + 64)
    assert not ticket.matches(cache)


def test_evidence_changed_before_the_commit_does_not_reach_the_cache() -> None:
    made = layer()
    cache, twin, row = LayerCache(made, 1, 4), LayerCache(made, 1, 4), rows(made, 1, batch_size=1)
    prepared = prepare(made, cache, row)
    assert prepared.result.evidence is not None
    for array in vars(prepared.result.evidence).values():
        array[...] = 9.0
    commit(cache, prepared.ticket)
    append(made, twin, row)
    assert cache == twin


def test_a_stack_is_committed_together() -> None:
    stack = [(made, filled(made, 2)) for made in (layer(1), layer(2), layer(3))]
    tickets = [(cache, prepare(made, cache, rows(made, 1)).ticket) for made, cache in stack]
    commit_all(tickets)
    assert [cache.length for _, cache in stack] == [3, 3, 3]


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_one_ticket_that_does_not_match_keeps_the_whole_stack(wrong: int) -> None:
    stack = [(made, filled(made, 2)) for made in (layer(1), layer(2), layer(3))]
    tickets = [(cache, prepare(made, cache, rows(made, 1)).ticket) for made, cache in stack]
    made, cache = stack[wrong]
    append(made, cache, rows(made, 1))
    before = [image(cache) for _, cache in stack]
    with pytest.raises(TicketMismatchError) as refused:
        commit_all(tickets)
    assert refused.value.index == wrong
    assert [image(cache) for _, cache in stack] == before
    assert [ticket.used for _, ticket in tickets] == [False] * 3


def test_two_tickets_for_one_cache_are_refused_before_the_first_is_written() -> None:
    made = layer()
    cache = filled(made, 2)
    pairs = [(cache, prepare(made, cache, rows(made, 1, seed=s)).ticket) for s in (4, 5)]
    before = image(cache)
    with pytest.raises(TicketMismatchError, match="same cache") as refused:
        commit_all(pairs)
    assert refused.value.index == 1
    assert image(cache) == before


class _Recorder:
    """Stands in for a buffer and notes each write with the length that the cache has then."""

    def __init__(self, name: str, cache: LayerCache, log: list[Any]) -> None:
        self.name, self.cache, self.log = name, cache, log

    def __setitem__(self, slots: Any, written: Array) -> None:
        self.log.append((self.name, slots[2], self.cache._length))


def test_commit_writes_keys_then_values_then_raises_the_length() -> None:
    made = layer()
    cache = filled(made, 2)
    ticket = prepare(made, cache, rows(made, 1)).ticket
    log: list[Any] = []
    cache._keys, cache._values = _Recorder("keys", cache, log), _Recorder("values", cache, log)  # type: ignore[assignment]
    cache._write(ticket)
    assert log == [("keys", slice(2, 3), 2), ("values", slice(2, 3), 2)]
    assert cache._length == 3


def test_commit_cannot_fail_once_its_ticket_matches() -> None:
    """Nothing is allocated or computed by a commit that could fail: with no memory left it still works."""
    made = layer()
    cache = filled(made, 2)
    ticket = prepare(made, cache, rows(made, 1)).ticket
    with pytest.MonkeyPatch.context() as patched:
        for name in ("empty", "zeros", "copyto", "array", "ascontiguousarray", "isfinite", "vdot", "dot"):
            patched.setattr(np, name, _no_memory)
        commit(cache, ticket)
    assert cache.length == 3
    assert np.array_equal(cache.key_storage[:, :, 2:3], ticket.keys)


def _no_memory(*_: Any, **__: Any) -> Any:
    raise MemoryError


def test_the_inner_call_checks_nothing_and_computes_the_same() -> None:
    made = layer()
    cache, row = filled(made, 2), rows(made, 1, seed=4)
    checked = prepare(made, cache, row)
    made.update({"key": made.node("key").value})  # stale for the checked call
    inner = prepare_unchecked(made, cache, row)
    assert inner.result.output.tobytes() == checked.result.output.tobytes()
    assert inner.ticket.keys.tobytes() == checked.ticket.keys.tobytes()


GOOD = (2, 2, 1, 6)


@pytest.mark.parametrize(
    ("keys", "values", "expected"),
    [
        ((2, 2, 6), GOOD, CandidateShapeError("key", GOOD, (2, 2, 6))),
        ((1, 2, 1, 6), (1, 2, 1, 6), CandidateShapeError("key", GOOD, (1, 2, 1, 6))),
        ((2, 2, 1, 5), (2, 2, 6), CandidateShapeError("key", GOOD, (2, 2, 1, 5))),
        (GOOD, (2, 1, 1, 6), CandidateShapeError("value", GOOD, (2, 1, 1, 6))),
        (GOOD, (2, 2, 2, 6), CandidateShapeError("value", GOOD, (2, 2, 2, 6))),
    ],
)
def test_candidate_rows_must_have_the_shape_of_the_slots_keys_first(
    keys: tuple[int, ...], values: tuple[int, ...], expected: CandidateShapeError
) -> None:
    cache = filled(layer(), 8)  # full as well, which comes later
    with pytest.raises(CandidateShapeError) as refused:
        cache._ticket(np.full(keys, np.nan), np.zeros(values))
    assert refused.value == expected


def test_candidate_rows_must_fit_before_they_are_looked_at() -> None:
    cache = filled(layer(), 8)
    with pytest.raises(CacheFullError) as refused:
        cache._ticket(np.full(GOOD, np.nan), np.zeros(GOOD))
    assert refused.value.capacity == 8


@pytest.mark.parametrize(("lane", "head", "feature"), [(0, 0, 0), (1, 0, 3), (1, 1, 5)])
def test_candidate_rows_must_be_finite_and_the_first_bad_key_is_named(
    lane: int, head: int, feature: int
) -> None:
    cache = filled(layer(), 2)
    keys, values = np.zeros(GOOD), np.zeros(GOOD)
    values[0, 0, 0, 0] = np.nan
    keys[lane, head, 0, feature] = -np.inf
    keys[1, 1, 0, 5] = -np.inf
    before = image(cache)
    with pytest.raises(CandidateNonFiniteError) as refused:
        cache._ticket(keys, values)
    assert refused.value == CandidateNonFiniteError((lane * 2 + head) * 6 + feature, -np.inf, "key")
    with np.errstate(all="ignore"), pytest.raises(CandidateNonFiniteError) as refused:
        cache._ticket(np.zeros(GOOD), -1.0 / keys)
    assert refused.value.tensor == "value"
    assert image(cache) == before
