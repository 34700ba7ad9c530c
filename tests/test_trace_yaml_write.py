"""Tree to text and trace to tree: what is written reads back as it was, bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.errors import TraceError
from conformance.trace.expect import (
    Accepted,
    Apart,
    Close,
    Custom,
    Declares,
    InputsKept,
    Length,
    Refused,
    Same,
    Shapes,
    Unchanged,
)
from conformance.trace.model import CacheSpec, Derived, Operation, Source, Trace
from conformance.trace.yaml import dump, from_trace, load
from conformance.trace.yaml_tree import parse
from conformance.values import (
    AttentionConfig,
    DecoderConfig,
    LayerConfig,
    LayerParameters,
    RopeConfig,
    StoreConfig,
)
from tests.trace_samples import at_level, golden

ROPE = RopeConfig(float(np.nextafter(100.0, 200.0)), "half", 16)
LAYER = LayerConfig(4, 2, 1, 2, ROPE)
DECODER = DecoderConfig(5, 2, LAYER, 6, 1e-5, positions="learned", tied=False, biases=True)
SOURCES = {
    "layer": Source(LAYER, LayerParameters(*(np.full(s, 0.1) for s in ((4, 4), (4, 2), (4, 2), (4, 4))))),
    "attention": Source(AttentionConfig(4, 2, 2, 3)),
    "store": Source(StoreConfig(2, 2, 2, 3)),
    "decoder": Source(DECODER, {"blocks.0.ffn.up.weight": np.eye(2) / 3, "gain": np.ones(4)}),
}
INPUTS = {"layer": ["rows"], "attention": ["query", "key", "value"], "store": ["keys", "values"]}


def same(left: Any, right: Any) -> bool:
    """Equal in type, shape and every bit, but for the file and line that a trace was read from."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return (
            isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and left.dtype == right.dtype
            and left.shape == right.shape and left.tobytes() == right.tobytes()
        )
    if dataclasses.is_dataclass(left) and type(left) is type(right):
        names = {field.name for field in dataclasses.fields(left)}
        names -= {"file", "line"} if isinstance(left, Trace) else set()
        return all(same(getattr(left, name), getattr(right, name)) for name in names)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))


def read_back(trace: Trace) -> Trace:
    (found,) = load(dump(from_trace(trace))).traces()
    return found


# --- dump ------------------------------------------------------------------------------------------------

CHARACTERS = st.just("\n") | st.characters(
    codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"), exclude_characters="\u202f"
)
WORDS = ["yes", "No", "~", "null", "1:30", "010", "=", "<<", "- a", "a: b", "# a", " a ", "---", "'", "\\"]
TEXTS = st.text(CHARACTERS, max_size=12) | st.sampled_from(WORDS)
TREES = st.recursive(
    TEXTS, lambda t: st.lists(t, max_size=3) | st.dictionaries(TEXTS, t, max_size=3), max_leaves=12
)


@settings(deadline=None)
@given(st.dictionaries(TEXTS, TREES, min_size=1, max_size=4))
def test_any_tree_reads_back_as_it_was_whoever_reads(tree: dict[str, Any]) -> None:
    text = dump(tree)
    found = parse(text).tree
    assert found == tree
    assert list(found) == list(tree)  # type: ignore[arg-type]
    assert yaml.safe_load(text) == tree
    assert dump(tree) == text


@pytest.mark.parametrize("tree", [golden(), *map(at_level, ("attention", "store", "decoder"))])
def test_a_golden_file_reads_back_row_by_row(tree: dict[str, Any]) -> None:
    text = dump(tree)
    assert load(text).tree == tree
    assert dump(load(text).tree) == text
    assert max(len(line) for line in text.splitlines() if '"' not in line) <= 110
    changed = text.replace('"1 -1/2 3/8 0x1.8p-3"', '"1 -1/2 3/8 0x1.8p-4"', 1)
    assert sum(a != b for a, b in zip(text.splitlines(), changed.splitlines(), strict=True)) <= 1


def test_the_text_of_a_small_tree() -> None:
    tree = {"a": "plain", "b": {"c": "1", "d": {}}, "e": {"shape": "2 1", "rows": ["1", "2"]},
            "steps": {"one": [{"op": "reset", "label": "of course"}]}}
    assert dump(tree) == (
        'a: plain\nb: {c: "1", d: {}}\ne:\n  shape: "2 1"\n  rows:\n    - "1"\n    - "2"\n'
        'steps:\n  one:\n    - {op: reset, label: "of course"}\n...\n'
    )


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"a": 1}, "a: found a int"),
        ({"a": {"b": [None]}}, r"a.b\[0\]: found a NoneType"),
        ({1: "a"}, "found a int"),
        ({"a": ("b",)}, "found a tuple|as it was"),
        ({"a": "b\0"}, r"U\+0000"),
        ({"a\t": "b"}, r"U\+0009"),
        ({}, "last line"),
    ],
)
def test_what_is_no_tree_is_not_written(tree: Any, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        dump(tree)


# --- from_trace ------------------------------------------------------------------------------------------

FLOATS = st.floats(width=64)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=8)
HANDLES = st.from_regex(r"\A[A-Za-z_][!-~]{0,6}\Z")
SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


def arrays(numbers: st.SearchStrategy[float], shapes: st.SearchStrategy[tuple[int, ...]] = SHAPES) -> Any:
    def of(shape: tuple[int, ...]) -> Any:
        size = int(np.prod(shape, dtype=int))
        drawn = st.lists(numbers, min_size=size, max_size=size)
        return drawn.map(lambda flat: np.array(flat, dtype=np.float64).reshape(shape))

    return shapes.flatmap(of)


def without_nan_payload(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(np.isnan(array), np.nan, array)


HANDED = arrays(FLOATS).map(without_nan_payload)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | FLOATS | LABELS | HANDED
    | st.sampled_from([LAYER, ROPE, DECODER, AttentionConfig(4, 2, 2, 3), StoreConfig(2, 2, 2, 3)])
    | st.just(np.array([1, -2], dtype=np.int64)) | st.just(np.array([True, False])),
    lambda p: (
        st.lists(p, max_size=3) | st.lists(p, max_size=3).map(tuple) | st.dictionaries(LABELS, p, max_size=3)
    ),
    max_leaves=5,
)
SPANS = st.none() | st.tuples(st.integers(0, 5), st.integers(5, 9))
LANES = st.none() | st.lists(st.integers(-1, 3), max_size=3).map(tuple)
BOUNDS = st.none() | st.floats(0, 1)
IDS = st.sampled_from(["AGREE-OUTPUT", "STORE-KEYS", "RESET-REPLAY", "ATOMIC-BYTES"])
CLOSE = st.builds(Close, IDS, st.sampled_from(["output", "keys:main/1"]), arrays(FINITE), BOUNDS)
EXPECTATIONS = st.one_of(
    CLOSE,
    CLOSE.map(lambda e: dataclasses.replace(e, bound=np.asarray(np.abs(e.value)), kappa=(5486.0, 73.0, 0.5))),
    st.builds(Same, IDS, st.just("output"), LABELS, SPANS, SPANS, LANES, LANES, BOUNDS),
    st.builds(Length, IDS, st.integers(0, 99), st.none() | LABELS),
    st.builds(Shapes, IDS, st.dictionaries(LABELS, SHAPES, max_size=3)),
    st.builds(Declares, IDS, st.just("work.position"), PLAIN),
    st.builds(Refused, IDS, st.sampled_from([("full",), ("full", "non_finite")]),
              st.dictionaries(st.sampled_from(["stage", "index", "value", "found"]), PLAIN, max_size=3)),
    st.builds(Accepted, IDS),
    st.builds(Unchanged, LABELS, *[st.just("") | IDS] * 5),
    st.builds(InputsKept, IDS),
    st.builds(Apart, IDS, LABELS),
    st.builds(Custom, IDS, LABELS, st.dictionaries(LABELS, PLAIN, max_size=3)),
)
OPERANDS = ["length", "lanes", "value", "batch_size", "capacity", "name", "step", "fresh", "layer", "other"]
ARGUMENTS = st.dictionaries(
    st.sampled_from(OPERANDS), PLAIN | st.integers(-3, 9) | st.just((1, 0)) | HANDLES, max_size=3,
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    level = draw(st.sampled_from(sorted(SOURCES)))
    ops = ["observe", "reset", "poison", "truncate", "reorder", "overwrite_input", "update"]
    ops.append("prefill" if level == "decoder" else "append")
    steps = []
    for number in range(draw(st.integers(1, 3))):
        op = draw(st.sampled_from(ops))
        calls = op in ("append", "prefill")
        inputs = {name: draw(HANDED) for name in INPUTS.get(level, ["tokens"]) if calls}
        if "tokens" in inputs:
            inputs = {"tokens": np.array([[draw(st.integers(-3, 9))]], dtype=np.int64)}
        steps.append(
            Operation(
                op=op, target="main", layer=draw(st.sampled_from([None, "a"])), inputs=inputs,
                arguments=draw(ARGUMENTS), expect=tuple(draw(st.lists(EXPECTATIONS, max_size=3))),
                watch=draw(st.sampled_from([None, (), ("main",), ("main/1", "main"), ("a b", "main")])),
                label=draw(st.sampled_from(["", f"row {number}", f"{number}"])),
            )
        )
    return Trace(
        id="found/steps", level=level, about="found by search", layers={"a": SOURCES[level]},
        caches={"main": CacheSpec("a", 2, draw(st.sampled_from([None, 4]))), "a b": CacheSpec("a", 1, 3)},
        steps=tuple(steps),
        needs=frozenset(draw(st.sets(st.sampled_from(["chunks", "poison", "gqa"])))),
        optional=draw(st.booleans()), kappa=draw(st.none() | st.floats(1, 1e9)),
        dtype=draw(st.sampled_from(["float64", "bfloat16"])),
        seed=draw(st.none() | st.integers(0, 2**64)),
    )


@settings(max_examples=150, deadline=None)
@given(traces())
def test_any_trace_survives_a_file(trace: Trace) -> None:
    found = read_back(trace)
    assert same(found, trace)
    assert list(found.caches) == list(trace.caches)


def test_every_part_of_a_trace_is_written() -> None:
    """A field that is added to the model must find its way into the file: this fails until it has."""
    known = {
        Trace: "id level about layers caches steps needs kappa dtype optional file line seed",
        Operation: "op target layer inputs arguments expect watch label",
        Source: "config parameters",
        Derived: "source config fresh",
        CacheSpec: "layer batch_size capacity",
    }
    for kind, names in known.items():
        assert {field.name for field in dataclasses.fields(kind)} == set(names.split()), kind


@pytest.mark.parametrize("tree", [golden(), *map(at_level, ("attention", "store", "decoder"))])
def test_loaded_traces_survive_a_file(tree: dict[str, Any]) -> None:
    for trace in load(dump(tree)).traces():
        assert same(read_back(trace), trace)


def test_derived_layers_and_operands_survive_a_file() -> None:
    other = dataclasses.replace(LAYER, heads=4, kv_heads=3, head_width=1)
    trace = Trace(
        id="found/steps", level="layer", about="rewired",
        layers={"a": SOURCES["layer"], "b": Derived("a", other, ("key",)), "c": Derived("b")},
        caches={"main": CacheSpec("a", 1, 4), "twin": CacheSpec("c", 1, 4)},
        steps=(
            Operation(op="rewire", layer="c", arguments={"name": "d", "config": None, "fresh": ("key",)}),
            Operation(op="rewire", layer="c", arguments={"name": "e", "config": other}),
            Operation(op="build", target="new", layer="e", arguments={"batch_size": 0, "capacity": 2**62}),
            Operation(op="append", target="new", inputs={"rows": np.full((1, 1, 4), np.nan)}),
            Operation(op="append", target="new", inputs={"rows": np.zeros((1, 0, 4))}),
            Operation(op="append", target="twin", layer="d", inputs={"rows": np.zeros(())}),
            Operation(op="poison", target="main", arguments={"value": float("-inf")}),
            Operation(op="update", layer="a", inputs={"query": np.full((4, 4), 1.7976931348623157e308)}),
            Operation(op="full_prefix", layer="a", inputs={"rows": np.full((1, 2, 4), 5e-324)}),
            Operation(op="observe", target="main", arguments={"snapshot": True}),
        ),
        needs=frozenset({"rewire"}),
    )
    found = read_back(trace)
    assert same(found, trace)
    assert list(found.layers) == list(trace.layers)


@pytest.mark.parametrize(
    ("given_id", "name", "schedule"),
    [
        ("mod-gqa/single", "mod-gqa", "single"),
        ("Found: #3", "found-3", "steps"),
        ("a/b/c", "a-b", "c"),
        ("", "trace", "steps"),
        ("//", "trace", "steps"),
    ],
)
def test_ids(given_id: str, name: str, schedule: str) -> None:
    trace = load(dump(at_level("store"))).traces()[0]
    source = {"seed": "7", "adapter": "my.cache:make"}
    tree = from_trace(dataclasses.replace(trace, id=given_id), source=source)
    assert (tree["id"], list(tree["schedules"])) == (name, [schedule])
    assert load(dump(tree)).source == source


NAN = Close("AGREE-OUTPUT", "output", np.array([np.nan]))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Operation(op="reset", target="main", expect=(NAN,)), "not finite"),
        (Operation(op="reset", target="main", arguments={"what": object()}), "object has no form"),
        (Operation(op="reset", target="main", arguments={"what": np.array(["a"])}), "cannot be written"),
        (Operation(op="reset", target="main", inputs={"a": np.array([1j])}), "cannot be written"),
    ],
)
def test_what_has_no_form_is_not_written(step: Operation, said: str) -> None:
    trace = load(dump(golden())).traces()[0].with_steps((step,))
    with pytest.raises(TraceError, match=said) as caught:
        from_trace(trace)
    assert caught.value.path == "schedules.single[0]"


def test_narrow_arrays_are_widened() -> None:
    trace = load(dump(golden())).traces()[0]
    rows = np.array([[[0.1, 1 / 3, -0.0, 65504]]], dtype=np.float16)
    found = read_back(trace.with_steps((Operation(op="append", target="main", inputs={"rows": rows}),)))
    assert same(found.steps[0].inputs["rows"], rows.astype(np.float64))
