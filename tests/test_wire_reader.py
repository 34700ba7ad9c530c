"""The reader of replies: whatever a line holds, it is a message or a clear refusal, and costs little."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conformance.rejections import Rejected
from conformance.values import Observation, Step
from conformance.wire.errors import MessageError
from conformance.wire.lines import MAX_CONTAINERS, read_line, write_line
from conformance.wire.messages import declaration_in, observation_in, refusal_in, step_in
from conformance.wire.numbers import Numbers

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(
    [
        "seq",
        "output",
        "length",
        "dtype",
        "shape",
        "data",
        "keys",
        "storage",
        "kind",
        "value",
        "work",
        "name",
        "levels",
    ]
) | st.text(max_size=4)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)
ARRAYS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["float64", "float32", "int64", "bool", "complex64", 3]),
        "shape": st.lists(st.integers(-1, 3) | st.just(2**60) | st.floats(), max_size=3) | JSON,
        "data": st.lists(LEAVES | st.sampled_from(["nan", "inf", "-0"]), max_size=6) | JSON,
    }
)
REPLIES = st.dictionaries(NAMES, JSON | ARRAYS, max_size=6)
MODES = st.sampled_from(["decimal", "bits"])


def outcome(read, *operands):
    """What `read` makes of its operands, or the MessageError that it raises; nothing else may come."""
    try:
        return read(*operands)
    except MessageError as error:
        return error


def assert_refused(found, beginning=""):
    assert str(found).startswith(beginning)
    assert str(found)
    assert str(found).isprintable()
    assert len(str(found)) < 1200


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf{}")
@example(b"{}" + b" " * 100)
@example(b"1" * 5000)
@example(b'{"a": "\\ud800"}')
def test_any_bytes_are_read_or_refused(raw):
    found = outcome(read_line, raw)
    if isinstance(found, MessageError):
        assert_refused(found)
    else:
        assert isinstance(found, dict)


@given(st.dictionaries(st.text(), JSON))
def test_every_json_object_is_read_as_json_reads_it(message):
    text = json.dumps(message)
    found = outcome(read_line, text.encode())
    if isinstance(found, MessageError):
        # Python's json writes these two, which JSON does not have.
        assert any(word in text for word in ("NaN", "Infinity"))
        assert "is not JSON" in str(found)
    else:
        assert json.dumps(found) == text


@pytest.mark.parametrize(
    ("read", "kind"), [(step_in, Step), (observation_in, Observation), (refusal_in, Rejected)]
)
@given(message=REPLIES, mode=MODES)
def test_any_object_is_read_or_refused_with_its_place(read, kind, message, mode):
    found = outcome(read, message, "result", Numbers(mode))
    if isinstance(found, MessageError):
        assert_refused(found, "result")
    else:
        assert isinstance(found, kind)


@given(ARRAYS, MODES)
@settings(max_examples=300)
def test_any_array_is_read_or_refused(message, mode):
    found = outcome(Numbers(mode).array_in, message, "a")
    if isinstance(found, MessageError):
        assert_refused(found, "a")
    else:
        assert list(found.shape) == message["shape"]
        assert found.size == len(message["data"])


@given(JSON | REPLIES)
def test_any_declaration_is_read_or_refused(message):
    found = outcome(declaration_in, message, "result.declaration")
    if isinstance(found, MessageError):
        assert_refused(found, "result.declaration")
    else:
        assert found.name == message["name"]


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 10**6,
        b'{"a":' * 10**5 + b"1" + b"}" * 10**5,
        b'{"r":[' + b"{}," * 10**6 + b"{}]}",
        b'{"r":[' + b"1," * 3 * 10**6 + b"1]}",
        b'{"output": {"dtype": "float64", "shape": [1073741824, 1073741824], "data": []}}',
    ],
)
def test_bombs_cost_little_memory(line):
    tracemalloc.start()
    with pytest.raises(MessageError):
        step_in(read_line(line), "result", Numbers())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20 + 3 * len(line)


def test_the_limits_let_a_large_honest_reply_through():
    line = write_line({"a": Numbers().array_out(np.zeros((1024, 1024)))})
    assert line.count(b"[") < MAX_CONTAINERS
    assert read_line(line[:-1])["a"]["shape"] == [1024, 1024]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"a": 1, "a": 1}', "'a' stands twice"),
        (b'{"b": {"a": 1, "c": 2, "a": 3}}', "'a' stands twice"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'"text"', "a str is not a message"),
        (b"{} {}", "not JSON: Extra data at character 3"),
        (b'{"a": 01}', "not JSON"),
        (b'{"a": .5}', "not JSON"),
        (b'{"a": "\xc3("}', "not UTF-8 at byte 7: c3 28"),
        (b"   ", "an empty line"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line, problem):
    with pytest.raises(MessageError) as caught:
        read_line(line)
    assert problem in str(caught.value)
