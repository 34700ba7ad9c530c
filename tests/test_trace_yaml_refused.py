"""Every way in which a tree can be wrong is refused with file, line, path and what would be right."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from conformance.errors import TraceError
from conformance.trace.yaml import dump, load
from tests.trace_samples import decimals, exacts, golden

GONE = object()
FIRST = {"op": "append", "cache": "main", "sequence": "first[0:1]"}
WRONG: list[tuple[Any, ...]] = [
    ("format", "kv-conformance-trace/2", "must be 'kv-conformance-trace/1'"),
    ("format", GONE, "begins with 'format", ""),
    ("schedules", GONE, "key 'schedules' is missing", ""),
    ("colour", "red", "unknown key"),
    ("sequence", {}, "did you mean 'sequences'"),
    ("id", "Sample", "lower-case"),
    ("level", "block", "store, attention, layer, decoder"),
    ("about", "", "one sentence"),
    ("bound", "0", "must be positive"),
    ("bound", "1e400", "beyond the largest"),
    ("bound", ["1"], "found a list"),
    ("needs", "chunk", "no feature"),
    ("seed", "one", "whole number"),
    ("dtype", "float8", "one of float64"),
    ("published", "x", "must be a mapping"),
    ("source.a", {}, "a string"),
    ("inputs.x.shape", "2 3", "6 rows; the shape 2 3 has 2", "inputs.x.rows"),
    ("inputs.x.shape", "2 3 5", "4 numbers; this row has 5", "inputs.x.rows[0]"),
    ("inputs.x.shape", "999999999 99999999 4", "6 rows", "inputs.x.rows"),
    ("inputs.x.shape", "2 -3 4", "is no shape"),
    ("inputs.x.shape", "1 1 1 1 1 1 6 1 4", "is no shape"),
    ("inputs.x.shape", "2,3,4", "whole number"),
    ("inputs.x.rows", "0", "list of strings"),
    ("inputs.x.rows[2]", [], "no string"),
    ("inputs.x.rows[2]", "1 2 3", "3 numbers; this row has 4"),
    ("inputs.x.rows[5]", "1 2 3 0.1", "'0.1' is not an exact number"),
    ("inputs.x.rows[5]", "1 2 3 nan", "'nan' is not an exact number"),
    ("inputs.x.rows[5]", "1 2 3 1e400", "'1e400' is not an exact number"),
    ("inputs.x.rows[5]", "1 2  3 4", "exactly one space"),
    ("inputs.x.dtype", "float32", "one of float64, int64"),
    ("inputs.x y", exacts(1), "no name"),
    ("layers.a.config.heads", "0", "at least 1"),
    ("layers.a.config.heads", "2.0", "whole number"),
    ("layers.a.config.kv_heads", "3", "do not divide the 2 query heads", "layers.a.config"),
    ("layers.a.config.head_width", "3", "odd", "layers.a.config"),
    ("layers.a.config.rope.base", "-1", "positive"),
    ("layers.a.config.rope.pairing", "both", "adjacent, half"),
    ("layers.a.config.rope.scale", "1", "unknown key"),
    ("layers.a.parameters.query.shape", "2 8", "must be 4 4"),
    ("layers.a.parameters.bias", exacts(4), "unknown key"),
    ("layers.b.from", "c", "no layer above this one named 'c'; there is a"),
    ("layers.b.fresh", "keys", "query key value output"),
    ("layers.b.config", golden()["layers"]["a"]["config"], "leave the single fields out", "layers.b.rope"),
    ("layers.b.rope", "200", "a mapping with base"),
    ("caches.main.layer", "z", "there is no layer 'z'; there is a, b"),
    ("caches.main.batch_size", "0", "at least 1"),
    ("caches.main.capacity", "many", "whole number"),
    ("caches.main.capacity", "2", "beyond the capacity 2", "schedules.single[2]"),
    ("caches.main.batch_size", "3", "has 2 lanes, the cache 3", "schedules.single[0]"),
    ("caches.main.layer", "b", "exact on layer 'a', but this step works on 'b'", "schedules.single[0]"),
    ("sequences.first.rows", "y", "no input 'y'; there is x"),
    ("sequences.first.rows", "x[1:1]", "no part of"),
    ("sequences.first.rows", "x[0:4]", "no part of"),
    ("sequences.first.rows", "x[-1:2]", "slice of one"),
    ("sequences.first.inputs", {"rows": "x"}, "either rows or inputs", "sequences.first"),
    ("sequences.first.kappa.merged", "1 1 1", "unknown key"),
    ("sequences.first.kappa.output", "1 1", "there must be 3"),
    ("sequences.first.exact.output.shape", "2 3 8", "must be 2 3 4"),
    ("sequences.first.exact.output.rows[3]", "0.1 0 0 0", "1 significant digits"),
    ("sequences.first.exact.output.rows[3]", "nan 0 0 0", "not finite"),
    ("sequences.first.exact.output.rows[3]", "1e400 0 0 0", "beyond the largest"),
    ("sequences.first.exact.weights.rows[0]", "1 0 0", "3 numbers; this row has 1"),
    ("sequences.first.exact.scores", decimals(1), "unknown key"),
    ("schedules.single", [], "at least one"),
    ("schedules.single", {}, "must be a list"),
    ("schedules", {}, "at least one"),
    ("schedules.Single", [FIRST], "no name"),
    ("schedules.rejections[1].op", "apend", "one of build, append"),
    ("schedules.rejections[1].op", "prefill", "level layer has no prefill"),
    ("schedules.rejections[1].op", GONE, "a mapping with op", "schedules.rejections[1]"),
    ("schedules.rejections[1].cache", GONE, "'cache' is missing", "schedules.rejections[1]"),
    ("schedules.rejections[1].cache", "mian", "no cache 'mian'; there is main"),
    ("schedules.rejections[1].layer", "c", "no layer 'c'"),
    ("schedules.rejections[1].lable", "1", "unknown key; did you mean"),
    ("schedules.rejections[1].rejected.kind", "rope", "no kind of rejection"),
    (
        "schedules.rejections[1].rejected.kind",
        "zero_capacity",
        "add requirement",
        "schedules.rejections[1].rejected",
    ),
    ("schedules.rejections[1].rejected.index", "1 2", "one whole number"),
    ("schedules.rejections[1].rejected", GONE, "needs requirement", "schedules.rejections[1].unchanged"),
    ("schedules.rejections[1].expect", {"length": "1"}, "gives no result"),
    ("schedules.rejections[1].unchanged", "other", "cache 'other'"),
    ("schedules.rejections[1].watch", "other", "no cache 'other'"),
    ("schedules.rejections[1].requirement", "AGREE-OUTPUTS", "did you mean AGREE-OUTPUT"),
    ("schedules.rejections[1].requirement", "agree-output", "id of a requirement"),
    ("schedules.rejections[1].sequence", "first[1:2]", "no other inputs", "schedules.rejections[1].rows"),
    ("schedules.rejections[1].inputs", {"rows": "x"}, "give them once", "schedules.rejections[1].rows"),
    ("schedules.rejections[1].rows", GONE, "given none; it takes rows", "schedules.rejections[1].op"),
    (
        "schedules.rejections[1].rows",
        exacts(1) | {"rows": ["Infinity"]},
        "not an exact",
        "schedules.rejections[1].rows.rows[0]",
    ),
    (
        "schedules.rejections[1].rows",
        exacts(1) | {"dtype": "int32", "rows": [str(2 ** 31)]},
        "beyond int32",
        "schedules.rejections[1].rows.rows",
    ),
    (
        "schedules.rejections[1].arguments",
        {"a": {"int": "1", "text": "b"}},
        "one type",
        "schedules.rejections[1].arguments.a",
    ),
    (
        "schedules.rejections[1].arguments",
        {"a": {"integer": "1"}},
        "unknown key",
        "schedules.rejections[1].arguments.a.integer",
    ),
    (
        "schedules.rejections[1].arguments",
        {"a": {"none": "x"}},
        "must be ''",
        "schedules.rejections[1].arguments.a.none",
    ),
    (
        "schedules.rejections[1].expectations",
        [{"type": "near"}],
        "one of close",
        "schedules.rejections[1].expectations[0].type",
    ),
    (
        "schedules.rejections[1].expectations",
        [{"type": "accepted"}],
        "is missing",
        "schedules.rejections[1].expectations[0]",
    ),
    ("schedules.single[1].label", "row 0", "not one earlier step", "schedules.single[4].replays"),
    ("schedules.single[1].watch", ["main", "a\nb"], "a name", "schedules.single[1].watch[1]"),
    ("schedules.single[1].sequence", "first[2:3]", "cache, which holds first[0:1]", "schedules.single[1]"),
    ("schedules.single[1].sequence", "first[0:1]", "cache, which holds first[0:1]", "schedules.single[1]"),
    ("schedules.single[0].sequence", "first[1:2]", "cache, which holds nothing", "schedules.single[0]"),
    ("schedules.single[0].sequence", "last", "no sequence 'last'"),
    ("schedules.single[4].replays", "row 9", "'row 9' is not one earlier step"),
    ("schedules.single[4].replays", "4", "'4' is not one earlier step"),
    ("schedules.single[4].accepted", "true", "requirement"),
    ("schedules.single[3].expect.storage", "kept", "'same'"),
    ("schedules.single[0].expect", {"storage": "same"}, "a reset", "schedules.single[0].expect.storage"),
    (
        "schedules.single[0].expect",
        {"keys": "first.output"},
        "no exact keys",
        "schedules.single[0].expect.keys",
    ),
    (
        "schedules.single[0].expect",
        {"keys": "x[0:1]"},
        "part of a sequence",
        "schedules.single[0].expect.keys",
    ),
    ("schedules.single[3].expect.length", "-1", "at least 0"),
]
"""Where the sample is changed, to what, what the error says, and its path where that is another."""


def changed(where: str, value: Any) -> dict[str, Any]:
    """The sample with one entry set to `value`, or taken out."""
    tree: Any = copy.deepcopy(golden())
    node = tree
    *steps, last = (int(n) if n else key for key, n in re.findall(r"([^.\[\]]+)|\[([0-9]+)\]", where))
    for step in steps:
        node = node[step]
    if value is GONE:
        del node[last]
    else:
        node[last] = value
    return tree  # type: ignore[no-any-return]


@pytest.mark.parametrize("row", WRONG, ids=[f"{row[0]}-{number}" for number, row in enumerate(WRONG)])
def test_whatever_is_wrong_is_refused_with_its_place(row: tuple[Any, ...]) -> None:
    where, value, said, *other = row
    path = other[0] if other else where
    text = dump(changed(where, value))
    with pytest.raises(TraceError) as caught:
        load(text, file="sample.yaml")
    error = caught.value
    assert (error.file, error.path) == ("sample.yaml", path)
    assert said in error.problem
    assert str(error).startswith(f"sample.yaml:{error.line}: ")
    key = re.sub(r"\[[0-9]+\]", "", path).rpartition(".")[2]
    inside = path.endswith("]")
    assert error.line == 1 or inside or key in text.splitlines()[error.line - 1]


def test_the_line_is_that_of_the_row() -> None:
    text = dump(changed("sequences.first.exact.keys.rows[4]", "0.1 0"))
    with pytest.raises(TraceError) as caught:
        load(text)
    assert text.splitlines()[caught.value.line - 1].strip() == '- "0.1 0"'
