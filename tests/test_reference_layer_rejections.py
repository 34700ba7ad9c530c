"""What is refused before the calculation, in which order, with what it carries; and that nothing changes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import reference_impl.layer_errors as errors
from reference_impl.layer import PARAMETER_NAMES, Layer, LayerCache, append
from tests.reference_layer_samples import Array, config, filled, image, layer, rows

NUDGED = float(np.nextafter(100.0, 200.0))


class Call:
    """A call that is right until offences are committed on it: layer, cache and rows."""

    def __init__(self) -> None:
        self.first = layer()
        self.cache = filled(self.first, 2, batch_size=2, capacity=4)
        self.layer: Layer = self.first
        self.rows: Array = rows(self.first, 1)
        self.batch, self.tokens = 2, 1
        self.changes: dict[str, Any] = {}
        self.fresh: tuple[str, ...] = ()

    def made(self) -> tuple[Layer, LayerCache, Array]:
        """The call with its offences."""
        if {"model_width", "heads", "kv_heads", "head_width"} & set(self.changes):
            self.layer = layer(**self.changes)
        elif self.changes or self.fresh:
            self.layer = self.first.rewired(config=config(**self.changes), fresh=self.fresh)
        return self.layer, self.cache, self.rows


def _rank(call: Call) -> errors.CacheError:
    call.rows = call.rows[0]
    return errors.InputRankError(2)


def _tokens(call: Call) -> errors.CacheError:
    call.rows = np.repeat(call.rows, 2, axis=1)
    return errors.SingleTokenRequiredError(2)


def _batch(call: Call) -> errors.CacheError:
    call.rows = call.rows[:1]
    return errors.InputBatchMismatchError(2, 1)


def _width(call: Call) -> errors.CacheError:
    call.rows = np.repeat(call.rows, 2, axis=2)
    return errors.InputWidthMismatchError(call.changes.get("model_width", 10), call.rows.shape[2])


def _model_width(call: Call) -> errors.CacheError:
    call.changes["model_width"] = 12
    if call.rows.shape[-1] == 10:
        call.rows = np.concatenate([call.rows, call.rows[..., :2]], axis=-1)
    return errors.CacheModelWidthMismatchError(10, 12)


def _heads(call: Call) -> errors.CacheError:
    call.changes["heads"] = 2
    return errors.CacheHeadCountMismatchError(4, 2)


def _kv_heads(call: Call) -> errors.CacheError:
    call.changes["kv_heads"] = 1
    return errors.CacheHeadCountMismatchError(2, 1)


def _head_width(call: Call) -> errors.CacheError:
    call.changes["head_width"] = 4
    return errors.CacheHeadWidthMismatchError(6, 4)


def _identity(call: Call) -> errors.CacheError:
    call.fresh = ("output",)
    return errors.CacheLayerMismatchError()


def _revision(call: Call) -> errors.CacheError:
    call.first.update({"value": call.first.node("value").value})
    return errors.CacheLayerRevisionMismatchError(2, 0, 1)


def _rope(call: Call) -> errors.CacheError:
    call.changes["base"] = NUDGED
    mine = call.first.rope_settings
    return errors.CacheRopeMismatchError(mine, errors.RopeSettings(6, 16, NUDGED, "adjacent"))


def _full(call: Call) -> errors.CacheError:
    for _ in range(2):
        append(call.first, call.cache, rows(call.first, 1))
    return errors.CacheFullError(4)


ORDER = [
    (_rank, 1), (_tokens, 2), (_batch, 3), (_width, 4), (_model_width, 5), (_heads, 6), (_kv_heads, 6),
    (_head_width, 7), (_identity, 8), (_revision, 9), (_rope, 10), (_full, 11),
]  # fmt: skip
"""Every offence with the number of its check."""


def _refused(call: Call, expected: errors.CacheError) -> None:
    made, cache, given = call.made()
    before, weights = image(cache), [node.value.tobytes() for node in call.first.nodes]
    revisions = call.first.revisions()
    with pytest.raises(errors.CacheError) as refused:
        append(made, cache, given)
    assert refused.value == expected
    assert image(cache) == before
    assert [node.value.tobytes() for node in call.first.nodes] == weights
    assert call.first.revisions() == revisions


@pytest.mark.parametrize("offence", [o for o, _ in ORDER], ids=lambda o: o.__name__)
def test_each_refusal_alone_carries_both_sides_and_changes_nothing(offence: Any) -> None:
    call = Call()
    _refused(call, offence(call))


PAIRS = [(one, other) for (one, first), (other, second) in combinations(ORDER, 2) if first < second]


@pytest.mark.parametrize(("earlier", "later"), PAIRS, ids=lambda o: o.__name__)
def test_of_two_offences_the_earlier_check_is_reported(earlier: Any, later: Any) -> None:
    call = Call()
    if later is _full:  # the cache is filled while layer and rows are still right
        _full(call)
    else:
        later(call)
    expected = earlier(call)
    if earlier is _rank:
        expected = errors.InputRankError(call.rows.ndim)
    if earlier is _tokens:
        expected = errors.SingleTokenRequiredError(call.rows.shape[1])
    _refused(call, expected)


def test_of_two_head_counts_the_query_heads_come_first() -> None:
    call = Call()
    _kv_heads(call)
    _refused(call, _heads(call))


@pytest.mark.parametrize("rank", [0, 1, 2, 4])
def test_every_rank_but_three_is_refused(rank: int) -> None:
    call = Call()
    call.rows = np.zeros((1,) * rank)
    _refused(call, errors.InputRankError(rank))


def test_no_token_is_refused_in_both_modes() -> None:
    call = Call()
    call.rows = call.rows[:, :0]
    _refused(call, errors.SingleTokenRequiredError(0))
    with pytest.raises(errors.EmptyChunkError):
        append(call.layer, call.cache, call.rows, rows_per_append="any")


def test_a_chunk_that_does_not_fit_whole_is_refused_whole() -> None:
    made = layer()
    cache = filled(made, 2, capacity=4)
    before = image(cache)
    with pytest.raises(errors.CacheFullError):
        append(made, cache, rows(made, 3), rows_per_append="any")
    assert image(cache) == before
    assert append(made, cache, rows(made, 2), rows_per_append="any").length == 4


@pytest.mark.parametrize("name", PARAMETER_NAMES)
def test_each_rebuilt_node_is_another_layer(name: str) -> None:
    call = Call()
    call.fresh = (name,)
    _refused(call, errors.CacheLayerMismatchError())


@pytest.mark.parametrize("index", range(4))
def test_each_stale_node_is_named_with_both_revisions(index: int) -> None:
    call = Call()
    node = call.first.nodes[index]
    node.update(node.value)
    node.update(node.value)
    _refused(call, errors.CacheLayerRevisionMismatchError(index, 0, 2))


def test_the_first_stale_node_is_named_and_any_difference_counts() -> None:
    call = Call()
    for name in ("output", "key"):
        call.first.update({name: call.first.node(name).value})
    _refused(call, errors.CacheLayerRevisionMismatchError(1, 0, 1))
    old = LayerCache(call.first, 2, 4)
    call.first.nodes[1]._revision = 0
    with pytest.raises(errors.CacheLayerRevisionMismatchError) as refused:
        append(call.first, old, call.rows)
    assert refused.value == errors.CacheLayerRevisionMismatchError(1, 1, 0)


def test_all_identities_are_compared_before_any_revision() -> None:
    call = Call()
    call.first.update({"query": call.first.node("query").value})
    call.fresh = ("output",)
    _refused(call, errors.CacheLayerMismatchError())


@pytest.mark.parametrize(
    "changes", [{"base": NUDGED}, {"base": 200.0}, {"max_positions": 17}, {"pairing": "half"}]
)
def test_every_rope_setting_is_compared(changes: dict[str, Any]) -> None:
    call = Call()
    call.changes = dict(changes)
    theirs = config(**changes).rope_settings()
    _refused(call, errors.CacheRopeMismatchError(call.first.rope_settings, theirs))


def test_another_layer_object_over_the_same_nodes_is_the_same_layer() -> None:
    call = Call()
    made, cache, given = call.first.rewired(), call.cache, call.rows
    assert append(made, cache, given).length == 3


def test_reset_cures_no_binding_and_a_new_cache_does() -> None:
    call = Call()
    call.first.update({"key": call.first.node("key").value * 2})
    call.cache.reset()
    _refused(call, errors.CacheLayerRevisionMismatchError(1, 0, 1))
    new = LayerCache(call.first, 2, 4)
    output = append(call.first, new, call.rows).output
    assert np.abs(output - call.first.full_prefix(call.rows)).max() <= 1e-12


def test_after_a_refusal_the_future_is_that_of_an_untouched_twin() -> None:
    call = Call()
    twin = call.cache.clone()
    for offence in (_rank, _tokens, _batch, _width, _rope, _identity):
        other = Call()
        other.first, other.layer, other.cache = call.first, call.first, call.cache
        offence(other)
        made, cache, given = other.made()
        with pytest.raises(errors.CacheError):
            append(made, cache, given)
    row = rows(call.first, 1, seed=12)
    mine, its = append(call.first, call.cache, row), append(call.first, twin, row)
    assert mine.output.tobytes() == its.output.tobytes()
    assert call.cache == twin


def test_a_full_cache_works_again_after_reset() -> None:
    call = Call()
    _refused(call, _full(call))
    call.cache.reset()
    output = append(call.first, call.cache, call.rows).output
    assert np.abs(output - call.first.full_prefix(call.rows)).max() <= 1e-12


@pytest.mark.parametrize("offence", [_full, _revision, _rope], ids=lambda o: o.__name__)
def test_rows_that_are_not_finite_are_met_only_after_every_other_check(offence: Any) -> None:
    call = Call()
    expected = offence(call)
    call.rows = np.full_like(call.rows, np.nan)
    _refused(call, expected)
