"""The work of a history: published totals, and the records that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reference_impl.layer import HistoryWork, LayerCache, StepRecord, WorkCounts, append, summarize
from reference_impl.layer_errors import HistoryError
from tests.reference_layer_samples import layer, rows


def _records(chunks: tuple[int, ...]) -> list[StepRecord]:
    made = layer()
    cache = LayerCache(made, 2, 8)
    sequence, taken, records = rows(made, sum(chunks)), 0, []
    for count in chunks:
        step = append(made, cache, sequence[:, taken : taken + count], rows_per_append="any")
        records.append(StepRecord.of(step))
        taken += count
    return records


def test_three_single_steps_have_the_published_totals() -> None:
    assert summarize(_records((1, 1, 1))) == HistoryWork((1, 2, 3), 6, 3, 3, 3, 6)


def test_chunks_count_their_rows() -> None:
    assert summarize(_records((2, 1, 3))) == HistoryWork((2, 3, 6), 11, 6, 5, 5, 10)


def test_the_counts_of_each_step_follow_from_the_old_length() -> None:
    assert [record.work for record in _records((1, 1, 2))] == [
        WorkCounts(0, 1, 1, 0),
        WorkCounts(1, 2, 1, 1),
        WorkCounts(2, 4, 2, 2),
    ]


def test_a_history_without_steps_is_refused() -> None:
    with pytest.raises(HistoryError) as refused:
        summarize([])
    assert refused.value == HistoryError(None, "there are no steps")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weight_counts": ()}, "no heads"),
        ({"weight_counts": (2, 2, 3, 2)}, "differ"),
        ({"weight_counts": (3, 3)}, "new length 2"),
        ({"length": 3}, "new length 3"),
        ({"logical_shape": (2, 2, 3, 6)}, "logical shape"),
        ({"logical_shape": (2, 2)}, "logical shape"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused_with_its_step(
    change: dict[str, object], says: str
) -> None:
    records = _records((1, 1, 1))
    records[1] = replace(records[1], **change)  # type: ignore[arg-type]
    with pytest.raises(HistoryError, match=says) as refused:
        summarize(records)
    assert refused.value.step == 1


@pytest.mark.parametrize("work", [WorkCounts(1, 3, 1, 1), WorkCounts(1, 2, 2, 1), WorkCounts(1, 2, 1, 0)])
def test_totals_that_do_not_add_up_are_refused(work: WorkCounts) -> None:
    records = _records((1, 1, 1))
    records[1] = replace(records[1], work=work)
    with pytest.raises(HistoryError, match="together") as refused:
        summarize(records)
    assert refused.value.step is None


def test_a_step_without_evidence_has_no_record() -> None:
    made = layer()
    step = append(made, LayerCache(made, 2, 4), rows(made, 1), evidence=False)
    with pytest.raises(ValueError, match="evidence=True"):
        StepRecord.of(step)
