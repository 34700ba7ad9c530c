"""Scores of thousands, at level attention: the largest wins, and everything stays finite."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios.material import AttentionRows, appended, head_width
from conformance.scenarios.storage import trace
from conformance.trace.model import Trace
from conformance.values import AttentionConfig

WINS = ((1, -3, 2, -1, 4, -5), (2, -1, 5, -2, 4, -3))
CONTENT = (3, 5, 7, 11, 13, 17)


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Head 0 has scores up to 4096 in size, head 1 none above -20000; gaps are at least 1024."""
    if declaration.levels[0] != "attention" or declaration.dtypes[0] == "float16":
        return
    width = head_width(declaration)
    key, value = np.zeros((2, 1, 2, 6, width))
    query = np.zeros((1, 2, 6, width))
    query[0, 0, :, 2], query[0, 1, :, 2] = 64.0, -64.0
    key[0, 0, :, 2] = 32.0 * np.array(WINS[0])
    key[0, 1, :, 2] = 32.0 * (24.0 + np.array(WINS[1]))
    value[0, :, :, 0], value[0, :, :, 1] = CONTENT, -np.array(CONTENT) / 2.0
    value[0, 0, :, 2], value[0, 1, :, 3] = WINS
    rows = AttentionRows(declaration, AttentionConfig(2, 2, width, width), query, key, value)
    steps = tuple(appended(rows, "main", n, n + 1) for n in range(6))
    yield trace(rows, "extreme-scores", "scores of thousands", steps)
    chunks = tuple(
        appended(rows, "main", start, stop, output="CHUNK-AGREE") for start, stop in ((0, 1), (1, 3), (3, 6))
    )
    yield trace(
        rows, "extreme-scores-chunks", "scores of thousands, in chunks", chunks, needs=frozenset({"chunks"})
    )
