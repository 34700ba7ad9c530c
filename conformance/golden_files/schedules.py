"""The schedules of a golden file: rows one at a time or in chunks, reset, replay, reset, other rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.golden_files.numbers import Tree


def schedules(first: Sequence[int], second: Sequence[int]) -> Tree:
    """`single` and `chunked` for sequences that are cut into these chunks.

    Each appends `first`, resets, replays `first` bit for bit, resets, and appends `second`: a cache that
    keeps anything of its past over a reset is then wrong in values, not only in its length.
    """
    return {
        "single": _life([1] * sum(first), [1] * sum(second)),
        "chunked": _life(first, second),
    }


def _life(first: Sequence[int], second: Sequence[int]) -> list[Tree]:
    reset: Tree = {"op": "reset", "cache": "main", "expect": {"length": "0", "storage": "same"}}
    once, again = list(_appends("first", first)), list(_appends("first", first))
    for step, repeat in zip(once, again, strict=True):
        step["label"] = repeat["replays"] = step["sequence"].replace("[", "-").rstrip("]").replace(":", "-")
    return [*once, reset, *again, reset, *_appends("second", second)]


def _appends(sequence: str, chunks: Sequence[int]) -> Iterator[Tree]:
    start = 0
    for rows in chunks:
        yield {"op": "append", "cache": "main", "sequence": f"{sequence}[{start}:{start + rows}]"}
        start += rows
