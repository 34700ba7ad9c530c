"""Hostile, cut and damaged files: a TraceError or a document, soon, and never anything else."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conformance.errors import TraceError
from conformance.trace.yaml import Document, dump, load
from tests.trace_samples import damaged_trees, exacts, golden

TEXT = dump(golden())
DATA = TEXT.encode()

LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(9))
HOSTILE = {
    "billion laughs": LAUGHS,
    "endless alias": "a: &a [*a]\n",
    "deep lists": "a: " + "[" * 100_000 + "\n",
    "deep mappings": "a: " + "{b: " * 100_000 + "\n",
    "deep block lists": "a:\n" + "".join(f"{' ' * n}-\n" for n in range(2000)),
    "deep keys": "? " * 50_000 + "\n",
    "python object": "a: !!python/object/apply:os.system ['true']\n",
    "python name": "!!python/name:os.system ''\n",
    "many documents": "---\na: b\n" * 50_000,
    "many anchors": "".join(f"a{n}: &b{n} c\n" for n in range(50_000)),
    "long key": "? " + "k" * 2_000_000 + "\n: v\n",
    "long line": "a: " + "b" * 4_000_000 + "\n",
    "quotes": "a: " + '"' * 100_000 + "\n",
    "long comment": "# " + "x" * 4_000_000 + "\n",
    "zeros": "\0" * 1000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_soon(name: str) -> None:
    begun = time.process_time()
    with pytest.raises(TraceError) as caught:
        load(HOSTILE[name] + "...\n", file="evil.yaml")
    assert time.process_time() - begun < 5.0
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "number",
    [
        *("1" * 2_000_000, "0." + "1" * 2_000_000, "1/" + "1" * 2_000_000, "0x" + "f" * 2_000_000 + "p+1"),
        *("9e999999999", "0x1p+99999999", "1/0", "-", "0x", "."),
    ],
)
@pytest.mark.parametrize("where", ["inputs", "exact"])
def test_hostile_numbers_are_refused_soon(number: str, where: str) -> None:
    tree = golden()
    array = tree["inputs"]["x"] if where == "inputs" else tree["sequences"]["first"]["exact"]["output"]
    array["rows"][0] = f"0 0 0 {number}"
    begun = time.process_time()
    with pytest.raises(TraceError, match=r"rows\[0\]"):
        load(dump(tree))
    assert time.process_time() - begun < 2.0


@pytest.mark.parametrize("shape", ["99999 99999 99999", "9" * 39, "0 " * 7 + "9" * 39, "1 " * 7 + "9" * 30])
def test_a_huge_shape_allocates_nothing(shape: str) -> None:
    text = dump(golden() | {"inputs": {"x": exacts(2, 3, 4) | {"shape": shape.strip()}}})
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=r"inputs\.x\.rows"):
            load(text)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_row_that_is_nearly_right_is_refused_soon() -> None:
    tree = golden()
    long = "0." + "1234567890" * 4
    tree["sequences"]["first"]["exact"]["output"]["rows"][0] = f"{long} " * 50_000 + "x"
    begun = time.process_time()
    with pytest.raises(TraceError, match=r"output.rows\[0\]"):
        load(dump(tree))
    assert time.process_time() - begun < 3.0


@pytest.mark.parametrize("start", [1, 48])
def test_every_cut_is_refused(start: int) -> None:
    for end in [*range(start, len(DATA), 97), *range(len(DATA) - 40, len(DATA))]:
        with pytest.raises(TraceError):
            load(DATA[:end], file="cut.bin")


def test_the_head_can_be_cut_neither() -> None:
    for begin in range(1, len(DATA), 97):
        with pytest.raises(TraceError):
            load(DATA[begin:])


def test_doubled_and_joined_files_are_refused() -> None:
    for data in (DATA + DATA, DATA + b"\n" + DATA, DATA[:-4] + DATA):
        with pytest.raises(TraceError):
            load(data)


def test_every_line_counts() -> None:
    """Without any one of its lines a golden file is refused, but for lines that stand alone."""
    lines = TEXT.splitlines(keepends=True)
    lawful = 0
    for number, line in enumerate(lines):
        try:
            load("".join(lines[:number] + lines[number + 1 :]))
        except TraceError:
            continue
        lawful += 1
        free = ("source:", "provenance:", "published:", "kappa:", "- {op:", "unchanged:", "layer: b")
        assert line.strip().startswith(free), line
    assert lawful


def test_every_line_doubled_is_refused_but_for_whole_steps() -> None:
    lines = TEXT.splitlines(keepends=True)
    for number, line in enumerate(lines):
        try:
            load("".join(lines[: number + 1] + lines[number:]))
        except TraceError:
            continue
        assert line.strip().startswith(("- {op: reset",)) or line == "...\n", line


def try_out(data: bytes) -> None:
    """Load damaged data; whatever is raised must be a TraceError that names the file."""
    try:
        found: Document | TraceError = load(data, file="fuzzed")
    except TraceError as error:
        found = error
    assert found.file == "fuzzed"
    assert not isinstance(found, TraceError) or str(found).startswith("fuzzed:")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@example([(len(DATA) - 2, ord("\n"))])
def test_flipped_bytes(changes: list[tuple[int, int]]) -> None:
    data = bytearray(DATA)
    for place, byte in changes:
        data[place] = byte
    try_out(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 60), st.sampled_from([b"", b"\n", b"- ", b": ", b"{"]))
def test_bytes_taken_out_and_put_in(place: int, count: int, instead: bytes) -> None:
    try_out(DATA[:place] + instead + DATA[place + count :])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 200), st.integers(0, 200))
def test_lines_moved_about(first: int, second: int) -> None:
    lines = TEXT.splitlines(keepends=True)
    first, second = first % len(lines), second % len(lines)
    lines[first], lines[second] = lines[second], lines[first]
    try_out("".join(lines).encode())


@settings(max_examples=150, deadline=None)
@given(damaged_trees())
def test_any_tree_in_any_place(tree: dict[str, Any]) -> None:
    """Wherever an entry stands, whatever stands there instead."""
    try_out(dump(tree).encode())
