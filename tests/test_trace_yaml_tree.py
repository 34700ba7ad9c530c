"""Text to tree: what two YAML readers could take for different things is refused, with its line."""

from __future__ import annotations

import pytest
import yaml

from conformance.errors import TraceError
from conformance.trace import yaml_tree
from conformance.trace.yaml_tree import MAX_BYTES, MAX_DEPTH, parse

REFUSED = {
    "anchor": ("a: &x b\n", 1, "&x: anchors"),
    "anchor on a mapping": ("a: &x {b: c}\n", 1, "&x: anchors"),
    "alias": ("a: b\nc: *x\n", 2, r"\*x: anchors"),
    "tag": ("a: b\nc: !!int 3\n", 2, "tags are refused"),
    "python tag": ("a: !!python/object/apply:os.system [ls]\n", 1, "tags are refused"),
    "local tag": ("a: ! b\n", 1, "tags are refused"),
    "merge key": ("a: {b: c}\nd: {<<: {e: f}}\n", 2, "merge key"),
    "doubled key": ("a: b\nc: d\na: e\n", 3, "stands twice, first in line 1"),
    "doubled inner key": ("a:\n  b: c\n  b: d\n", 3, "stands twice, first in line 2"),
    "doubled key in flow": ('a: {b: c, "b": d}\n', 1, "stands twice"),
    "second document": ("a: b\n---\nc: d\n", 2, "second document"),
    "directive": ("%YAML 1.1\n---\na: b\n", 1, "directive"),
    "list": ("- a\n", 1, "not a mapping"),
    "scalar": ("a\n", 1, "not a mapping"),
    "nothing but a comment": ("# a\n", 2, "not a mapping|not YAML"),
    "mapping as a key": ("{a: b}: c\n", 1, "key is no string"),
    "list as a key": ("? [a]\n: b\n", 1, "key is no string"),
    "octal": ("a: 010\n", 1, 'write "010"'),
    "sexagesimal": ("a: 1:30\n", 1, 'write "1:30"'),
    "integer": ("a: 3\n", 1, 'write "3"'),
    "float": ("a: -1.5e+3\n", 1, "without quotes"),
    "float of one dialect": ("a: 1e-12\n", 1, "without quotes"),
    "bare point": ("a: .5\n", 1, "without quotes"),
    "not a number": ("a: .NaN\n", 1, "without quotes"),
    "underscore": ("a: 1_000\n", 1, "without quotes"),
    "hexadecimal": ("a: 0x1f\n", 1, "without quotes"),
    "date": ("a: 2024-01-01\n", 1, "without quotes"),
    "yes": ("a: yes\n", 1, "without quotes"),
    "no as a key": ("no: a\n", 1, "without quotes"),
    "off": ("a: [b, Off]\n", 1, "without quotes"),
    "null": ("a: ~\n", 1, "without quotes"),
    "value sign": ("a: =\n", 1, "without quotes"),
    "nothing": ("a:\n", 1, "nothing means different things"),
    "tab": ("a:\tb\n", 1, "a tab"),
    "carriage return": ("a: b\rc: d\n", 1, "carriage return"),
    "byte order mark": ("\ufeffa: b\n", 1, "byte order mark"),
    "next line": ('a: "b\x85c"\n', 1, r"U\+0085"),
    "line separator": ('a: "b\u2028c"\n', 1, r"U\+2028"),
    "right to left": ('a: "b\u202ec"\n', 1, r"U\+202E"),
    "zero width": ('a: b\nc: "\u200b"\n', 2, r"U\+200B"),
    "escaped null": ('a: "b\\0"\n', 1, r"U\+0000"),
    "escaped null in a key": ('"a\\0": b\n', 1, r"U\+0000"),
    "escape that is no character": ('a: "\\U00110000"\n', 1, "not YAML"),
    "escaped surrogate": ('a: "\\ud800"\n', 1, "not YAML|U\\+D800"),
    "unclosed list": ("a: [b\n", 2, "not YAML"),
    "unclosed quote": ('a: "b\n', 2, "not YAML"),
    "bad indentation": ("a:\n    b: c\n  d: e\n", 3, "not YAML"),
    "reserved sign": ("a: @b\n", 1, "not YAML"),
}


READERS = {"python": yaml.BaseLoader, "libyaml": getattr(yaml, "CBaseLoader", yaml.BaseLoader)}


@pytest.fixture(params=READERS.values(), ids=READERS)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_tree, "_READER", request.param)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, line, said = REFUSED[name]
    with pytest.raises(TraceError, match=said) as caught:
        parse(text + "...\n", "some.yaml")
    assert caught.value.file == "some.yaml"
    assert caught.value.line in (line, 0 if "character" in name or "surrogate" in name else line)


@pytest.mark.usefixtures("reader")
def test_accepted_text_means_the_same_to_every_reader() -> None:
    text = """
# a comment
a: plain words, with a comma
b: {c: [d, "e"], "2": 'f'}
g:
  - "1 -1/2"
  - {h: []}
  - - i
  - >
    folded
    text
j: "\\u00e9 é \\n"
k: ""
l: 1/2
m: 2 7
...
"""
    found = parse(text).tree
    assert found == yaml.safe_load(text) == yaml.load(text, Loader=yaml.BaseLoader)
    assert parse(text.replace("\n", "\r\n")).tree == found
    assert parse(text.encode()).tree == found


def test_lines_of_entries() -> None:
    parsed = parse("a: b\nc:\n  - d\n  - {e: f,\n     g: h}\n...\n")
    paths = ((), ("a",), ("c",), ("c", 1), ("c", 1, "g"), ("c", 1, "x"), ("z",))
    assert [parsed.line(path) for path in paths] == [1, 1, 2, 4, 5, 4, 1]
    error = parsed.error("wrong", ("c", 1, "g"))
    assert str(error) == "5: c[1].g: wrong"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        (b"", "empty"),
        ("a: b\n", "last line is 'a: b'"),
        ("a: b\n...", "last line is '...'"),
        ("a: b\n....\n", "last line is '....'"),
        ("a: b\n... \n", "last line"),
        (b"a: b\nc: \xff\n...\n", "byte 8 .0xff. is not UTF-8"),
        ("a: b\n...\n".encode("utf-16"), "not UTF-8"),
        ("a: \ud800\n...\n", r"U\+D800"),
        ("a: " + "[" * 2000 + "\n...\n", "nested deeper|nesting depth"),
        ("a: " + "{b: " * 2000 + "\n...\n", "nested deeper|nesting depth"),
        (b"a" * (MAX_BYTES + 1), "more than 16777216 bytes"),
    ],
)
def test_not_a_whole_text(text: str | bytes, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        parse(text)


def test_too_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_tree, "MAX_NODES", 50)
    assert parse("a: [" + "b, " * 40 + "]\n...\n").tree
    with pytest.raises(TraceError, match="more than 50 entries"):
        parse("a: [" + "b, " * 60 + "]\n...\n")


def test_the_deepest_nesting_that_is_allowed() -> None:
    depth = MAX_DEPTH - 1
    assert parse("a: " + "[" * depth + "]" * depth + "\n...\n").tree
    with pytest.raises(TraceError, match="nested deeper"):
        parse("a: " + "[" * (depth + 1) + "]" * (depth + 1) + "\n...\n")


def test_an_error_is_short_whatever_the_file_holds() -> None:
    with pytest.raises(TraceError) as caught:
        parse('"' + "k" * 5000 + '": &a b\n...\n')
    assert len(str(caught.value)) < 300
