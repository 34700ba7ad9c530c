"""The published schema judges as the loader does, as far as a schema can."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from conformance.adapter import FEATURES, LEVELS
from conformance.errors import TraceError
from conformance.rejections import KINDS
from conformance.trace.model import OPERATIONS
from conformance.trace.yaml import dump, from_trace, load
from conformance.trace.yaml_expect import TYPES
from conformance.trace.yaml_read import OPTIONAL, REQUIRED
from conformance.trace.yaml_short import EXPECTED
from conformance.trace.yaml_steps import COMMON, OPERANDS
from tests.test_trace_yaml_refused import WRONG, changed
from tests.trace_samples import at_level, damaged_trees, exacts, golden

SCHEMA_FILE = resources.files("conformance").joinpath("schemas/trace.schema.json")
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
NUMBER = {"shape": "", "rows": ["nan"]}
FIRST = {"op": "append", "cache": "main", "sequence": "first[0:1]"}

BEYOND_A_SCHEMA = (
    # sums and products
    *("rows; the shape", "numbers; this row has", "6 rows", "do not divide", "odd", "be 4 4", "be 2 3 4"),
    # the size of numbers and what is exact in binary
    *("must be positive", "beyond the largest", "1 significant digits", "beyond int32"),
    # names that stand elsewhere in the file, or in the contract
    *("no layer", "no input", "no sequence", "no cache", "cache 'other'", "no part of", "no exact keys"),
    *("did you mean AGREE-OUTPUT", "add requirement", "one earlier step"),
    # what a cache holds
    *("beyond the capacity", "lanes, the cache", "exact on layer", "cache, which holds"),
)
"""What the errors say that only the loader finds."""

KAPPA_OF_NOTHING = ("sequences.first.kappa.merged", "1 1 1", "unknown key")


def mistakes(tree: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in VALIDATOR.iter_errors(tree)]


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("tree", [golden(), *map(at_level, ("attention", "store", "decoder"))])
def test_files_and_what_is_made_of_their_traces(tree: dict[str, Any]) -> None:
    assert mistakes(tree) == []
    for trace in load(dump(tree)).traces():
        assert mistakes(from_trace(trace)) == []


@pytest.mark.parametrize("folder", ["derived", "published"])
def test_golden_files(folder: str) -> None:
    root = resources.files("golden").joinpath(folder)
    files = sorted((entry for entry in root.iterdir() if entry.name.endswith(".yaml")), key=lambda e: e.name)
    assert files
    for file in files:
        document = load(file, file=file.name)
        assert mistakes(document.tree) == [], file.name
        assert dump(dict(document.tree)) == file.read_text(encoding="utf-8"), file.name


@pytest.mark.parametrize("row", WRONG, ids=[f"{row[0]}-{number}" for number, row in enumerate(WRONG)])
def test_wrong_files(row: tuple[Any, ...]) -> None:
    where, value, said, *_ = row
    beyond = any(part in said for part in BEYOND_A_SCHEMA) or row == KAPPA_OF_NOTHING
    assert VALIDATOR.is_valid(changed(where, value)) == beyond


@pytest.mark.parametrize(
    "step",
    [
        {"op": "build", "cache": "new", "layer": "a", "batch_size": "0", "capacity": "none"},
        {"op": "rewire", "layer": "a", "name": "c", "rope": {"base": "200"}, "fresh": "key value"},
        {"op": "update", "layer": "a", "inputs": {"key": exacts(4, 2)}},
        {"op": "poison", "cache": "main", "value": "-inf"},
        {"op": "truncate", "cache": "main", "length": "-1"},
        {"op": "reorder", "cache": "main", "lanes": ""},
        {"op": "observe", "cache": "main", "snapshot": "true", "watch": ""},
        {"op": "full_prefix", "layer": "a", "rows": "x", "label": "the last one"},
        {"op": "append", "cache": "main", "inputs": {"rows": NUMBER | {"dtype": "int64", "rows": ["-7"]}}},
        {"op": "append", "cache": "main", "rows": NUMBER, "rejected": {"kind": "input_rank"}},
        FIRST | {"arguments": {"a": {"list": [{"none": ""}, {"map": {"b": {"bool": "false"}}}]}}},
        FIRST | {"expect": {"output": "first.output[0:1]", "work": {"position": "0"}}},
        FIRST | {"expectations": [{"type": "custom", "requirement": "AGREE-OUTPUT", "rule": "any"}]},
        FIRST | {"requirement": "ISOLATE-CACHES", "accepted": "true", "unchanged": "main"},
    ],
    ids="-".join,
)
def test_every_kind_of_step(step: dict[str, Any]) -> None:
    tree = golden() | {"schedules": {"only": [step]}, "optional": "true", "seed": "7", "dtype": "float32"}
    assert load(dump(tree)).traces()
    assert mistakes(tree) == []


@settings(max_examples=150, deadline=None)
@given(damaged_trees())
def test_the_schema_is_never_stricter_than_the_loader(tree: dict[str, Any]) -> None:
    try:
        load(dump(tree))
    except TraceError:
        return
    assert mistakes(tree) == []


def test_the_words_of_the_schema_are_those_of_the_code() -> None:
    """A word that is added to the code must be added to the schema: this fails until it has."""
    defs = SCHEMA["$defs"]
    assert set(SCHEMA["properties"]) == {*REQUIRED, *OPTIONAL}
    assert SCHEMA["required"] == list(REQUIRED)
    assert SCHEMA["properties"]["level"]["enum"] == list(LEVELS)
    assert defs["step"]["properties"]["op"]["enum"] == list(OPERATIONS)
    assert set(defs["step"]["properties"]) == {"op", *COMMON}
    assert set(defs["expect"]["properties"]) == set(EXPECTED)
    assert [ref["$ref"].rpartition("_expect_")[2] for ref in defs["expectation"]["oneOf"]] == [
        f"#/$defs/expect_{name}" for name in TYPES
    ]
    assert set(re.findall("[a-z_]+", defs["kinds"]["pattern"])) == set(KINDS)
    assert set(re.findall("[a-z_]+", SCHEMA["properties"]["needs"]["pattern"])) == set(FEATURES)
    operands = {op: set(branch["then"]["properties"]) for branch in defs["step"]["allOf"]
                for op in branch["if"]["properties"]["op"]["enum"] if "properties" in branch.get("then", {})}
    for op in OPERATIONS:
        assert set(OPERANDS.get(op, {})) <= operands[op], op
