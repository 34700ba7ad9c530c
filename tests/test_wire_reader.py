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


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf{}")
@example(b"{}" + b" " * 100)
@example(b"1" * 5000)
@example(b'{"a": "\\ud800"}')
def test_any_bytes_are_read_or_refused(raw):
    try:
        message = read_line(raw)
    except MessageError as error:
        assert str(error)  # noqa: PT017 - both outcomes are allowed, each has its own rule
        assert str(error).isprintable()
        assert len(str(error)) < 400
    else:
        assert isinstance(message, dict)


@given(st.dictionaries(st.text(), JSON))
def test_every_json_object_is_read_as_json_reads_it(message):
    text = json.dumps(message)
    try:
        read = read_line(text.encode())
    except MessageError as error:
        assert "is not JSON" in str(error)  # noqa: PT017 - NaN and Infinity, which Python's json writes
        assert any(word in text for word in ("NaN", "Infinity"))
    else:
        assert json.dumps(read) == text


@given(REPLIES, MODES)
def test_any_object_is_a_step_or_refused_with_its_place(given_, mode):
    _read_or_refused(step_in, given_, mode, Step)


@given(REPLIES, MODES)
def test_any_object_is_an_observation_or_refused_with_its_place(given_, mode):
    _read_or_refused(observation_in, given_, mode, Observation)


@given(REPLIES, MODES)
def test_any_object_is_a_refusal_or_refused_with_its_place(given_, mode):
    _read_or_refused(refusal_in, given_, mode, Rejected)


@given(ARRAYS, MODES)
@settings(max_examples=300)
def test_any_array_is_read_or_refused(given_, mode):
    try:
        array = Numbers(mode).array_in(given_, "a")
    except MessageError as error:
        assert str(error).startswith("a")  # noqa: PT017 - both outcomes are allowed
    else:
        assert list(array.shape) == given_["shape"]
        assert array.size == len(given_["data"])


@given(JSON | REPLIES)
def test_any_declaration_is_read_or_refused(given_):
    try:
        declaration = declaration_in(given_, "result.declaration")
    except MessageError as error:
        assert str(error).startswith("result.declaration")  # noqa: PT017 - both outcomes are allowed
    else:
        assert declaration.name == given_["name"]


def _read_or_refused(read, given_, mode, kind):
    try:
        value = read(given_, "result", Numbers(mode))
    except MessageError as error:
        assert str(error).startswith("result")
    else:
        assert isinstance(value, kind)


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
