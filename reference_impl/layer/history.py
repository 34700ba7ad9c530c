"""The work of a whole history of steps, summed up and refused where its records contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reference_impl.layer.result import StepResult, WorkCounts
from reference_impl.layer_errors import HistoryError


@dataclass(frozen=True)
class StepRecord:
    """What the summary reads of one step.

    length: the new length n; logical_shape: that of the logical keys, [B,G,n,d]; weight_counts: for each
    lane and head, over how many rows its newest query spread its weights.
    """

    length: int
    logical_shape: tuple[int, ...]
    weight_counts: tuple[int, ...]
    work: WorkCounts

    @classmethod
    def of(cls, result: StepResult) -> StepRecord:
        """The record of a step. Raises ValueError for a step without evidence."""
        if result.evidence is None:
            raise ValueError("StepRecord: the step carries no evidence; append with evidence=True")
        batch_size, heads, _, attended = result.evidence.weights.shape
        lanes, kv_heads, _, head_width = result.evidence.key.shape
        shape = (lanes, kv_heads, result.length, head_width)
        return cls(result.length, shape, (attended,) * (batch_size * heads), result.work)


@dataclass(frozen=True)
class HistoryWork:
    """Rows in total; full, incremental and reused are per projection, avoided across keys and values.

    newest_query_key_rows: for each step, the rows that its newest query reads.
    """

    newest_query_key_rows: tuple[int, ...]
    full_prefix_rows: int
    incremental_rows: int
    reused_key_rows: int
    reused_value_rows: int
    avoided_rows: int


def summarize(records: Sequence[StepRecord]) -> HistoryWork:
    """Add up the work of a history. Source: System 1, Work.

    Raises HistoryError for no steps; a step without heads; heads whose weight counts differ; a weight count
    that is not the new length or not axis 2 of the logical shape; totals in which the full rows are not the
    incremental and the reused ones together.
    """
    if not records:
        raise HistoryError(None, "there are no steps")
    newest = tuple(_weight_count(index, record) for index, record in enumerate(records))
    full = sum(record.work.full_prefix_rows for record in records)
    incremental = sum(record.work.incremental_rows for record in records)
    reused = sum(record.work.reused_rows for record in records)
    if full != incremental + reused:
        raise HistoryError(
            None, f"{full} full rows are not {incremental} incremental and {reused} reused ones together"
        )
    return HistoryWork(newest, full, incremental, reused, reused, 2 * reused)


def _weight_count(index: int, record: StepRecord) -> int:
    counts = set(record.weight_counts)
    if not counts:
        raise HistoryError(index, "there are no heads")
    if len(counts) > 1:
        raise HistoryError(index, f"the weight counts of its heads differ: {sorted(counts)}")
    (count,) = counts
    if count != record.length:
        raise HistoryError(index, f"{count} weights do not fit the new length {record.length}")
    if len(record.logical_shape) < 3 or count != record.logical_shape[2]:
        raise HistoryError(index, f"{count} weights do not fit the logical shape {record.logical_shape}")
    return count
