"""Typed refusals: comparable, picklable, with all that they carry."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import fields

import pytest

import reference_impl.layer_errors as errors
from conformance.rejections import APPEND_KINDS, CONSTRUCTION_KINDS, KINDS

ROPE = errors.RopeSettings(4, 16, 100.0, "adjacent")
SAMPLES = [
    errors.ZeroBatchSizeError(),
    errors.ZeroCapacityError(),
    errors.CapacityExceedsPositionsError(5, 4),
    errors.ElementCountOverflowError((2**40, 2**40)),
    errors.AllocationFailedError(2**57),
    errors.InputRankError(2),
    errors.SingleTokenRequiredError(2),
    errors.EmptyChunkError(),
    errors.InputBatchMismatchError(2, 3),
    errors.InputWidthMismatchError(4, 5),
    errors.CacheModelWidthMismatchError(4, 8),
    errors.CacheHeadCountMismatchError(4, 2),
    errors.CacheHeadWidthMismatchError(2, 4),
    errors.CacheLayerMismatchError(),
    errors.CacheLayerRevisionMismatchError(3, 0, 2),
    errors.CacheRopeMismatchError(ROPE, errors.RopeSettings(4, 17, 100.0, "adjacent")),
    errors.CacheFullError(4),
    errors.NonFiniteError(7, float("inf")),
    errors.CandidateNonFiniteError(7, float("-inf"), "value"),
    errors.CandidateShapeError("key", (1, 2, 1, 4), (1, 2, 4)),
    errors.StepError("score", errors.NonFiniteError(0, float("inf"))),
    errors.TicketMismatchError(1, "it has been used"),
    errors.HistoryError(None, "there are no steps"),
]


def test_the_samples_cover_every_error() -> None:
    defined = {
        entry
        for _, entry in inspect.getmembers(errors, inspect.isclass)
        if issubclass(entry, errors.CacheError)
    }
    assert defined - {errors.CacheError, errors.GeometryMismatchError} == {type(e) for e in SAMPLES}


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_equals_its_copies_and_no_other(error: errors.CacheError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert twin == error
        assert hash(twin) == hash(error)
    assert [other for other in SAMPLES if other == error] == [error]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_the_text_says_every_number_that_the_error_carries(error: errors.CacheError) -> None:
    for part in fields(error):
        carried = getattr(error, part.name)
        if carried is not None and not (isinstance(carried, int) and carried == 0):
            assert str(carried) in str(error)


@pytest.mark.parametrize("value", [1, 2])
def test_one_field_that_differs_makes_errors_differ(value: int) -> None:
    assert (errors.CacheLayerRevisionMismatchError(0, 1, value) == SAMPLES[14]) is False
    one = errors.CacheLayerRevisionMismatchError(0, 1, value)
    assert one != errors.CacheLayerRevisionMismatchError(0, 1, value + 1)


def test_an_error_that_carries_nan_is_not_equal_to_itself() -> None:
    nan = errors.NonFiniteError(0, float("nan"))
    wrapped = errors.StepError("query", nan)
    assert nan != nan
    assert wrapped != wrapped
    assert errors.NonFiniteError(0, 1.0) == errors.NonFiniteError(0, 1.0)


def test_a_wrapped_error_keeps_its_cause_reachable() -> None:
    cause = errors.CacheFullError(4)
    wrapped = errors.StepError("candidate", cause)
    assert wrapped.cause is cause
    assert wrapped.__cause__ is cause
    assert wrapped.kind == "full"
    assert "candidate" in str(wrapped)
    assert "4" in str(wrapped)


def test_subclasses_with_equal_fields_are_different_errors() -> None:
    assert errors.CacheHeadCountMismatchError(4, 2) != errors.CacheHeadWidthMismatchError(4, 2)
    assert errors.CacheFullError(4) != 4


def test_every_refusal_of_construction_and_append_has_its_class() -> None:
    kinds = {error.kind for error in SAMPLES}
    assert kinds >= set(CONSTRUCTION_KINDS) | set(APPEND_KINDS) | {"empty_chunk"}
    assert kinds - set(KINDS) == {"candidate_shape", "ticket_mismatch", "history"}


def test_rope_settings_compare_the_base_bit_for_bit() -> None:
    nudged = errors.RopeSettings(4, 16, float.fromhex("0x1.9000000000001p+6"), "adjacent")
    assert nudged != ROPE
    assert errors.RopeSettings(4, 16, 100.0, "adjacent") == ROPE
    assert hash(errors.RopeSettings(4, 16, 100.0, "adjacent")) == hash(ROPE)
    assert errors.RopeSettings(4, 16, 100.0, "half") != ROPE
    assert ROPE != (4, 16, 100.0, "adjacent")
