"""A loaded file: its parts, the traces of its schedules, and for everything wrong file, line and path."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.contract.fields import REQUIREMENT_OF_FIELD, UNCHANGED
from conformance.errors import TraceError
from conformance.trace.expect import (
    Accepted,
    Apart,
    Close,
    Declares,
    Expectation,
    InputsKept,
    Length,
    Refused,
    Same,
    Shapes,
    Unchanged,
)
from conformance.trace.model import CacheSpec, Derived, Operation, Source
from conformance.trace.yaml import dump, load, load_trace
from conformance.values import STEP_ARRAYS, LayerConfig, RopeConfig
from tests.trace_samples import at_level, decimals, exacts, golden

CONFIG = LayerConfig(4, 2, 1, 2, RopeConfig(100.0, "adjacent", 16))


def steps_of(*steps: Any, **changes: Any) -> tuple[Operation, ...]:
    tree = golden() | changes
    tree["schedules"] = {"only": list(steps)}
    return load(dump(tree)).traces()[0].steps


def expected(step: dict[str, Any], *before: Any, **changes: Any) -> list[Expectation]:
    return list(steps_of(*before, step, **changes)[-1].expect)


def close_fields(step: Operation) -> list[tuple[str, tuple[int, ...]]]:
    return [(e.field, e.value.shape) for e in step.expect if isinstance(e, Close)]


def numbers(array: dict[str, Any]) -> list[float]:
    return [float(Fraction(token)) for row in array["rows"] for token in row.split(" ")]


def test_the_parts_of_a_document() -> None:
    tree = golden()
    document = load(dump(tree), file="golden/sample.yaml")
    assert (document.id, document.level, document.bound, document.kappa) == ("sample", "layer", None, 5490.0)
    assert document.tree == tree
    assert document.source == tree["source"]
    assert document.caches == {"main": CacheSpec("a", 2, 3)}
    a, b = document.layers["a"], document.layers["b"]
    assert isinstance(a, Source)
    assert a.config == CONFIG
    assert b == Derived("a", LayerConfig(4, 2, 1, 2, RopeConfig(200.0, "adjacent", 16)))
    x = document.inputs["x"]
    assert x.shape == (2, 3, 4)
    assert x.dtype == np.float64
    assert x.ravel().tolist()[:5] == [1.0, -0.5, 0.375, 0.1875, -5.0]
    first = document.sequences["first"]
    output = tree["sequences"]["first"]["exact"]["output"]
    assert first.exact["output"].ravel().tolist() == numbers(output)
    assert first.kappa == {"output": (5490.0, 73.0, 393.0), "keys": (12.5, 1.0, 3.0)}
    assert document.rows("first.output") == tuple(output["rows"])
    assert document.exact("first.output")[0] == Fraction(output["rows"][0].split(" ")[0])
    assert document.exact("x")[:2] == (1, Fraction(-1, 2))
    assert document.exact("a.query")[3] == Fraction(3, 16)
    assert load_trace is load


def test_causal_weights_are_padded_with_zeros() -> None:
    tree = golden()
    weights = load(dump(tree)).sequences["first"].exact["weights"]
    rows = tree["sequences"]["first"]["exact"]["weights"]["rows"]
    assert weights.shape == (2, 2, 3, 3)
    assert (weights == np.tril(weights)).all()
    assert weights[0, 0, 1].tolist() == [*map(float, rows[1].split(" ")), 0.0]
    assert weights[1, 1, 2].tolist() == [*map(float, rows[11].split(" "))]


def test_one_trace_a_schedule() -> None:
    text = dump(golden())
    document = load(text)
    single, chunked, rejections = document.traces()
    names = ["sample/single", "sample/chunked", "sample/rejections"]
    assert [trace.id for trace in document.traces()] == names
    assert single.needs == {"gqa"}
    assert chunked.needs == {"gqa", "chunks"}
    assert rejections.needs == {"gqa", "rewire"}
    assert set(single.layers) == {"a"}
    assert set(rejections.layers) == {"a", "b"}
    assert text.splitlines()[single.line - 1] == "  single:"
    assert (single.kappa, single.level, single.dtype, single.seed) == (5490.0, "layer", "float64", None)
    assert document.trace("chunked") is chunked
    with pytest.raises(TraceError, match="no schedule 'nine'; there is single, chunked, rejections"):
        document.trace("nine")


def test_what_appending_a_part_of_a_sequence_expects() -> None:
    document = load(dump(golden() | {"bound": "3.9e-10"}))
    exact = document.sequences["first"].exact
    step = document.trace("single").steps[1]
    assert step.inputs["rows"].tolist() == document.inputs["x"][:, 1:2].tolist()
    found = {e.field: e for e in step.expect if isinstance(e, Close)}
    assert list(found) == ["output", "keys", "values", "weights"]
    assert found["output"].value.tolist() == exact["output"][:, 1:2].tolist()
    assert found["keys"].value.tolist() == exact["keys"][:, :, :2].tolist()
    assert found["values"].value.tolist() == exact["values"][:, :, :2].tolist()
    assert found["weights"].value.tolist() == exact["weights"][:, :, 1:2, :2].tolist()
    assert {e.requirement for e in found.values()} == {REQUIREMENT_OF_FIELD[name] for name in found}
    assert found["output"].kappa == (5490.0, 73.0, 393.0)
    assert found["weights"].kappa is None
    assert {e.bound for e in found.values()} == {3.9e-10}
    assert [e for e in step.expect if not isinstance(e, Close)] == [
        Length("STORE-LENGTH", 2),
        Shapes("STORE-LOGICAL-SHAPE", {"keys": (2, 1, 2, 2), "values": (2, 1, 2, 2)}),
        Shapes("SHAPE-OUTPUT", {"output": (2, 1, 4)}),
    ]


def test_arrays_are_read_only() -> None:
    step = load(dump(golden())).traces()[0].steps[0]
    close = next(e for e in step.expect if isinstance(e, Close))
    for array in (step.inputs["rows"], close.value):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1.0


def test_a_reset_with_its_storage() -> None:
    expect = {"length": "0", "storage": "same", "capacity": "3"}
    assert expected({"op": "reset", "cache": "main", "expect": expect}) == [
        Length("RESET-LENGTH", 0),
        Unchanged("main", storage="RESET-BYTES", addresses="RESET-ADDRESSES", capacity="RESET-CAPACITY"),
        Declares("RESET-CAPACITY", "capacity", 3),
    ]


FIRST = {"op": "append", "cache": "main", "sequence": "first[0:1]"}
RESET = {"op": "reset", "cache": "main"}


@pytest.mark.parametrize(("label", "replays", "other"), [("early", "early", "early"), (None, "0", "step-0")])
def test_a_replay_compares_every_field(label: str | None, replays: str, other: str) -> None:
    first = FIRST | ({"label": label} if label else {})
    steps = steps_of(first, RESET, FIRST | {"replays": replays})
    assert steps[0].label == other
    same = [e for e in steps[2].expect if isinstance(e, Same)]
    assert same == [Same("RESET-REPLAY", name, other) for name in (*STEP_ARRAYS, "keys", "values")]


def test_a_refused_step_with_what_must_not_change() -> None:
    step = {
        "op": "append", "cache": "main", "layer": "b", "rows": "x[1:2]", "unchanged": "main",
        "rejected": {
            "kind": "cache_rope_mismatch", "parameter": "2", "expected": "1 2", "value": "nan",
            "stage": "key",
        },
    }
    (found,) = steps_of(step)
    refused, unchanged = found.expect
    assert isinstance(refused, Refused)
    assert (refused.requirement, refused.kinds) == ("BIND-ROPE-BASE", ("cache_rope_mismatch",))
    assert str(refused.details) == "{'stage': 'key', 'value': nan, 'parameter': 2, 'expected': (1, 2)}"
    assert unchanged == Unchanged("main", **UNCHANGED)
    assert (found.layer, found.watch) == ("b", None)


def test_requirements_can_be_named() -> None:
    refused = {"op": "append", "cache": "main", "rows": "x[1:2]", "unchanged": "main"}
    own = {"kind": "full non_finite", "requirement": "REJECT-ORDER"}
    assert expected(refused | {"rejected": own}) == [
        Refused("REJECT-ORDER", ("full", "non_finite")), Unchanged("main", **UNCHANGED),
    ]
    everything = expected(FIRST | {"requirement": "ISOLATE-CACHES", "accepted": "true"})
    assert {e.requirement for e in everything} == {"ISOLATE-CACHES"}  # type: ignore[union-attr]
    assert Accepted("ISOLATE-CACHES") in everything


def test_unchanged_watches_what_it_names() -> None:
    caches = {"main": {"layer": "a", "batch_size": "2", "capacity": "3"}}
    caches["other"] = caches["main"]
    step = FIRST | {"unchanged": "other", "requirement": "ISOLATE-CACHES"}
    (found,) = steps_of(step, caches=caches)
    assert found.watch == ("main", "other")
    assert steps_of(FIRST | {"watch": ""})[0].watch == ()
    assert steps_of(FIRST | {"watch": "main"})[0].watch == ("main",)


def test_results_written_in_the_step() -> None:
    exact = golden()["sequences"]["first"]["exact"]
    weights = {"shape": "1 1 2 3", "rows": ["1/2 1/2", "1/4 1/4 1/2"]}
    step = {
        "op": "append", "cache": "main", "rows": exacts(2, 1, 4),
        "expect": {
            "length": "1", "output": decimals(2, 1, 4), "keys": "first.keys[0:1]", "weights": weights,
            "work": {"position": "0", "reused_rows": "0"},
        },
    }
    length, output, keys, seen, position, reused = expected(step)
    assert length == Length("STORE-LENGTH", 1)
    assert isinstance(output, Close)
    assert output.value.ravel().tolist() == numbers(decimals(2, 1, 4))
    assert isinstance(keys, Close)
    assert keys.value[0, 0, 0].tolist() == [*map(float, exact["keys"]["rows"][0].split(" "))]
    assert isinstance(seen, Close)
    assert seen.value.tolist() == [[[[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]]]
    assert position == Declares("REUSE-WORK-STEP", "work.position", 0)
    assert reused == Declares("REUSE-WORK-STEP", "work.reused_rows", 0)


def test_what_expect_names_replaces_what_the_sequence_says() -> None:
    found = expected(FIRST | {"expect": {"output": "first.output[1:2]", "length": "1"}})
    outputs = [e for e in found if isinstance(e, Close) and e.field == "output"]
    assert len(outputs) == 1
    exact = load(dump(golden())).sequences["first"].exact["output"]
    assert outputs[0].value.tolist() == exact[:, 1:2].tolist()
    assert sum(isinstance(e, Length) for e in found) == 1


def test_expectations_one_by_one() -> None:
    found = expected({
        "op": "observe", "cache": "main", "snapshot": "true",
        "expectations": [
            {"type": "apart", "requirement": "ISOLATE-HANDED-OUT", "cache": "main"},
            {"type": "inputs_kept", "requirement": "ISOLATE-INPUTS"},
            {"type": "length", "requirement": "STORE-LENGTH", "rows": "0", "cache": "main"},
            {"type": "same", "requirement": "RESET-REPLAY", "field": "keys", "other": "row 1", "rows": "0 2",
             "lanes": "1 0", "bound": "1e-12"},
        ],
    })
    assert found == [
        Apart("ISOLATE-HANDED-OUT", "main"),
        InputsKept("ISOLATE-INPUTS"),
        Length("STORE-LENGTH", 0, "main"),
        Same("RESET-REPLAY", "keys", "row 1", rows=(0, 2), lanes=(1, 0), bound=1e-12),
    ]


def test_operands_of_every_operation() -> None:
    parameter = exacts(4, 2)
    steps = steps_of(
        {"op": "build", "cache": "huge", "layer": "a", "batch_size": "0", "capacity": "281474976710656"},
        {"op": "build", "cache": "grows", "layer": "a", "batch_size": "1", "capacity": "none"},
        {"op": "update", "layer": "a", "inputs": {"key": parameter}},
        {"op": "rewire", "layer": "a", "name": "c", "heads": "4", "rope": {"base": "0x1.9p+6"},
         "fresh": "key value"},
        {"op": "append", "cache": "main", "layer": "c", "rows": "x[0:1]"},
        {"op": "poison", "cache": "main", "value": "nan"},
        {"op": "twin", "cache": "main", "name": "twin"},
        {"op": "fork", "cache": "twin", "name": "branch"},
        {"op": "reorder", "cache": "branch", "lanes": "1 0"},
        {"op": "truncate", "cache": "branch", "length": "-1"},
        {"op": "overwrite_row", "cache": "main", "buffer": "1", "lane": "0", "head": "0", "slot": "2",
         "inputs": {"numbers": exacts(2)}, "arguments": {"extra": {"list": [{"int": "1"}, {"none": ""}]}}},
        {"op": "overwrite_input", "step": "row 1"},
        {"op": "full_prefix", "layer": "a", "sequence": "first"},
    )
    assert steps[0].arguments == {"batch_size": 0, "capacity": 2**48}
    assert steps[1].arguments == {"batch_size": 1, "capacity": None}
    assert steps[2].inputs["key"].shape == (4, 2)
    changed = LayerConfig(4, 4, 1, 2, RopeConfig(100.0, "adjacent", 16))
    assert steps[3].arguments == {"name": "c", "config": changed, "fresh": ("key", "value")}
    assert np.isnan(steps[5].arguments["value"])
    assert steps[8].arguments == {"lanes": (1, 0)}
    assert steps[9].arguments == {"length": -1}
    assert steps[10].arguments == {"buffer": 1, "lane": 0, "head": 0, "slot": 2, "extra": [1, None]}
    assert steps[11].arguments == {"step": "row 1"}
    assert [e.field for e in steps[12].expect if isinstance(e, Close)] == ["output"]


def test_needs_follow_from_the_steps() -> None:
    def needs(*steps: Any) -> frozenset[str]:
        return load(dump(golden() | {"schedules": {"only": list(steps)}})).traces()[0].needs

    assert needs(FIRST | {"sequence": "first[0:2]"}) == {"gqa", "chunks"}
    refused = {"op": "append", "cache": "main", "rows": "x", "rejected": {"kind": "single_token_required"}}
    assert needs(refused) == {"gqa"}
    assert needs({"op": "poison", "cache": "main", "value": "1"}) == {"gqa", "poison"}
    update = {"op": "update", "layer": "a", "inputs": {"key": exacts(4, 2)}}
    assert needs(update) == {"gqa", "update_parameters"}
    assert needs({"op": "observe", "cache": "main", "snapshot": "true"}) == {"gqa", "snapshot"}
    stated = load(dump(golden() | {"needs": "evidence storage"})).traces()
    assert {trace.needs for trace in stated} == {frozenset({"evidence", "storage"})}
    assert all(set(trace.layers) == {"a", "b"} for trace in stated)


def test_a_refused_step_leaves_what_a_cache_holds() -> None:
    refused = {"op": "append", "cache": "main", "rows": "x[1:2]", "rejected": {"kind": "full"}}
    listed = FIRST | {"sequence": "first[1:2]", "expectations": [
        {"type": "refused", "requirement": "CAPACITY-FULL", "kinds": "full"},
    ]}
    second = FIRST | {"sequence": "first[1:2]"}
    assert len(steps_of(FIRST, refused, listed, second)) == 4
    with pytest.raises(TraceError, match="which holds other rows"):
        steps_of(FIRST, {"op": "append", "cache": "main", "rows": "x[1:2]"}, second)


def test_what_a_cache_holds_is_followed_through_every_operation() -> None:
    second, third = FIRST | {"sequence": "first[1:2]"}, FIRST | {"sequence": "first[2:3]"}
    fork = {"op": "fork", "cache": "main", "name": "branch"}
    assert steps_of(FIRST, fork, second, second | {"cache": "branch"}, third | {"cache": "branch"})
    assert steps_of(FIRST, second, {"op": "truncate", "cache": "main", "length": "1"}, second)
    assert steps_of(FIRST, second, RESET, FIRST)
    for between in (
        {"op": "truncate", "cache": "main", "length": "0"},
        {"op": "truncate", "cache": "main", "length": "2"},
        {"op": "reorder", "cache": "main", "lanes": "1 0"},
        RESET,
    ):
        with pytest.raises(TraceError, match="does not continue the cache"):
            steps_of(FIRST, between, second)


def test_a_derived_layer_brings_the_layer_that_it_is_made_from() -> None:
    tree = golden()
    tree["layers"]["c"] = {"from": "b", "heads": "2"}
    tree["caches"]["other"] = tree["caches"]["main"] | {"layer": "c"}
    tree["schedules"] = {
        "derived": [{"op": "append", "cache": "other", "rows": "x"}],
        "plain": [{"op": "reset", "cache": "main"}],
    }
    one, two = load(dump(tree)).traces()
    assert (set(one.layers), set(one.caches)) == ({"a", "b", "c"}, {"other"})
    assert (set(two.layers), set(two.caches)) == ({"a"}, {"main"})


def test_levels_other_than_layer() -> None:
    attention = load(dump(at_level("attention"))).traces()[0].steps[1]
    assert {name: array.shape for name, array in attention.inputs.items()} == {
        "query": (1, 4, 1, 2), "key": (1, 2, 1, 2), "value": (1, 2, 1, 3),
    }
    assert close_fields(attention) == [
        ("output", (1, 4, 1, 3)), ("keys", (1, 2, 2, 2)), ("values", (1, 2, 2, 3)), ("weights", (1, 4, 1, 2)),
    ]
    store = load(dump(at_level("store"))).traces()[0].steps[1]
    assert (store.arguments, store.watch) == ({"layer": 1}, ("main/1",))
    assert close_fields(store) == [
        ("keys:main/1", (1, 2, 2, 2)), ("values:main/1", (1, 2, 2, 3)),
    ]
    assert Length("STORE-LENGTH", 2, "main/1") in store.expect
    prefill, decode, observe, close = load(dump(at_level("decoder"))).traces()[0].steps
    assert prefill.inputs["tokens"].tolist() == [[3, 1]]
    assert prefill.inputs["tokens"].dtype == np.int64
    assert decode.inputs["tokens"].tolist() == [4]
    assert close_fields(decode) == [("output", (1, 1, 5))]
    assert close_fields(observe) == [("keys:main/1", (1, 1, 3, 2))]
    assert close.op == "close"


def test_reading_files(tmp_path: Path) -> None:
    path = tmp_path / "sample.yaml"
    path.write_text(dump(golden()), encoding="utf-8")
    assert load(path).file == str(path)
    assert load(str(path)).id == "sample"
    assert load(path, file="other-name").traces()[0].file == "other-name"
    assert load(path.read_bytes()).id == "sample"
    other = tmp_path / "other.yaml"
    other.write_bytes(path.read_bytes())
    with pytest.raises(TraceError, match="id is 'sample' and the file is 'other'") as caught:
        load(other)
    assert (caught.value.line, caught.value.path) == (2, "id")
    for missing in (tmp_path / "none.yaml", tmp_path, "none.yaml", "a\0b"):
        with pytest.raises(TraceError, match="cannot be read"):
            load(missing)
    other.write_bytes(b"# " + b"a" * 2**24)
    with pytest.raises(TraceError, match="at most 16 MiB"):
        load(other)
