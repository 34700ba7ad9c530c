"""A step reads the history where it lies: what it allocates grows with the scores and not with the rows."""

from __future__ import annotations

import tracemalloc

import pytest

from reference_impl.layer import Layer, LayerCache, append
from tests.reference_layer_samples import layer, rows

HEADS, WIDTH, LONG = 4, 64, 1000
WORKSPACE = 80 * 1024
"""What NumPy itself may take for an operand that it broadcasts: 8192 numbers, whatever the length."""


def _peak(made: Layer, length: int, *, evidence: bool) -> int:
    """Bytes that one step allocates at its worst, with `length` rows in the cache."""
    cache = LayerCache(made, 1, LONG + 10)
    cache._length = length - 1
    row = rows(made, 1, batch_size=1)
    append(made, cache, row, evidence=evidence)  # whatever is allocated once
    tracemalloc.start()
    try:
        append(made, cache, row, evidence=evidence)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("evidence", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_the_peak_of_a_step_at_row_1000_is_that_at_row_10_plus_scores(kv_heads: int, evidence: bool) -> None:
    made = layer(model_width=256, heads=HEADS, kv_heads=kv_heads, head_width=WIDTH, max_positions=2000)
    short, long = _peak(made, 10, evidence=evidence), _peak(made, LONG, evidence=evidence)
    scores = 8 * HEADS * LONG
    assert long - short <= 1.25 * scores + WORKSPACE
    one_copy_of_the_keys = 8 * kv_heads * WIDTH * LONG
    assert long - short < one_copy_of_the_keys / 4


def test_a_step_leaves_nothing_behind() -> None:
    made = layer(max_positions=64)
    cache, row = LayerCache(made, 1, 64), rows(made, 1, batch_size=1)
    append(made, cache, row)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(40):
            append(made, cache, row, evidence=False)
        assert tracemalloc.get_traced_memory()[0] - before < 4096
    finally:
        tracemalloc.stop()


def test_the_storage_never_moves_and_is_never_replaced() -> None:
    made = layer()
    cache = LayerCache(made, 2, 8)
    keys, values, sequence = cache._keys, cache._values, rows(made, 8)
    for t in range(8):
        append(made, cache, sequence[:, t : t + 1])
        assert cache._keys is keys
        assert cache._values is values
    cache.reset()
    assert cache._keys is keys
    assert cache._values is values


def test_a_history_of_many_lanes_is_read_where_it_lies() -> None:
    made = layer(max_positions=600)
    cache = LayerCache(made, 9, 600)
    cache._length = 500
    row = rows(made, 1, batch_size=9)
    append(made, cache, row, evidence=False)
    tracemalloc.start()
    try:
        append(made, cache, row, evidence=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 1.25 * 8 * 9 * made.config.heads * 501 + WORKSPACE
    assert peak < cache.key_storage[:, :, :500].nbytes
