"""A golden file that is not what the manifest records is refused, with file, line and path."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from conformance.adapter import Declaration
from conformance.errors import TraceError, UsageError
from conformance.golden_files import digest_of_all, load, names, traces

GOLDEN = Path(str(files("golden")))
FILES = sorted(str(path.relative_to(GOLDEN)) for path in GOLDEN.glob("*/*.yaml"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


def change_digit(path: Path, number: int) -> int:
    """Raise one digit of the given line that has one; returns the line, from 1."""
    lines = path.read_text("utf-8").split("\n")
    at = [i for i, line in enumerate(lines) if re.search(r"\d", line)]
    line = at[number % len(at)]
    place = [m.start() for m in re.finditer(r"\d", lines[line])][-1]
    digit = str((int(lines[line][place]) + 1) % 10)
    lines[line] = lines[line][:place] + digit + lines[line][place + 1 :]
    path.write_text("\n".join(lines), "utf-8")
    return line + 1


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("number", [0, 61, 160])
def test_one_changed_digit_is_refused_with_its_place(copy: Path, file: str, number: int) -> None:
    line = change_digit(copy / file, number)
    with pytest.raises(TraceError) as caught:
        load(Path(file).stem, directory=copy)
    assert caught.value.file == f"{copy}/{file}"
    assert caught.value.line == line
    assert f"{file}:{line}" in str(caught.value)
    assert caught.value.path
    assert "manifest" in caught.value.problem


def test_the_path_is_the_entry_of_that_line(copy: Path) -> None:
    path = copy / "derived" / "mod-square.yaml"
    lines = path.read_text("utf-8").split("\n")
    line = next(i for i, text in enumerate(lines) if "0.6217539735482978" in text)
    lines[line] = lines[line].replace("0.62175", "0.62176")
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(TraceError) as caught:
        load("mod-square", directory=copy)
    assert caught.value.path == "sequences.first.exact.weights.rows[1]"


def test_a_line_too_many_or_too_few_is_refused(copy: Path) -> None:
    path = copy / "derived" / "mean.yaml"
    text = path.read_text("utf-8")
    path.write_text(text.replace("about:", "# a comment\nabout:"), "utf-8")
    with pytest.raises(TraceError, match=r"mean.yaml:4.* lines instead of") as caught:
        load("mean", directory=copy)
    assert caught.value.line == 4
    path.write_text(text[: len(text) // 2], "utf-8")
    with pytest.raises(TraceError, match="lines instead of"):
        load("mean", directory=copy)


def test_line_ends_of_another_system_are_the_same_file(copy: Path) -> None:
    path = copy / "derived" / "mean.yaml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert load("mean", directory=copy).id == "mean"


def test_a_file_or_manifest_that_is_missing(copy: Path) -> None:
    (copy / "derived" / "mean.yaml").unlink()
    with pytest.raises(TraceError, match=r"derived/mean.yaml: the file cannot be read"):
        load("mean", directory=copy)
    (copy / "manifest.yaml").unlink()
    with pytest.raises(TraceError, match="no manifest"):
        names(directory=copy)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("kv-conformance-manifest/1", "other/1"), "a manifest begins with"),
        (lambda text: text.replace("sha256", "sha", 1), "an entry holds"),
        (lambda text: text.replace("files:", "file:", 1), "a manifest holds"),
        (lambda text: text[:400], "last line"),
    ],
)
def test_a_manifest_that_is_none(copy: Path, change: object, said: str) -> None:
    path = copy / "manifest.yaml"
    path.write_text(change(path.read_text("utf-8")), "utf-8")  # type: ignore[operator]
    with pytest.raises(TraceError, match=said) as caught:
        names(directory=copy)
    assert caught.value.file == f"{copy}/manifest.yaml"


def test_an_unknown_name_is_answered_with_the_names() -> None:
    with pytest.raises(UsageError, match=r"no golden file 'mod'; there are ch37, ch38, forge, extreme"):
        load("mod")


def test_the_digest_of_all_moves_with_any_file(copy: Path) -> None:
    assert digest_of_all(directory=copy) == digest_of_all()
    text = (copy / "manifest.yaml").read_text("utf-8")
    (copy / "manifest.yaml").write_text(text.replace("sha256: \"", "sha256: \"0", 1), "utf-8")
    assert digest_of_all(directory=copy) != digest_of_all()


def test_arrays_are_the_float64_nearest_to_the_decimals() -> None:
    document = load("mod-gqa6")
    output = document.sequences["first"].exact["output"]
    assert output.dtype == np.float64
    assert output.ravel().tolist() == [float(x) for row in document.rows("first.output") for x in row.split()]


def test_what_can_be_asked_of_a_declaration() -> None:
    one = Declaration(name="one row a call")
    plain = {trace.id for trace in traces(one)}
    assert {"ch37/single", "ch37/two-tokens", "mod-square/single", "extreme/single"} <= plain
    assert not any("chunked" in name or "gqa" in name or "rejections" in name for name in plain)
    every = Declaration(name="all", features=frozenset({"chunks", "gqa", "rewire"}), rows_per_append="any")
    asked = {trace.id for trace in traces(every)}
    assert asked - plain == {
        "ch37/chunked", "ch37/rejections", "extreme/chunked", "mean/single", "mean/chunked",
        "mod-gqa-adjacent/single", "mod-gqa-adjacent/chunked", "mod-gqa-half/single", "mod-gqa-half/chunked",
        "mod-gqa6/single", "mod-gqa6/chunked", "mod-mqa/single", "mod-mqa/chunked", "mod-square/chunked",
        "weights/chunked",
    }
    assert plain - asked == {"ch37/two-tokens"}
    plain_decoder = {trace.id for trace in traces(Declaration(name="d", levels=("decoder",)))}
    assert plain_decoder == {"ch38/prompt", "ch38/single", "ch38/rejections"}
    rewiring = Declaration(name="d", levels=("decoder",), features=frozenset({"rewire"}))
    assert {trace.id for trace in traces(rewiring)} == {*plain_decoder, "ch38/reopened"}
    assert not list(traces(Declaration(name="fixed", levels=("store",))))
    chunks = frozenset({"chunks"})
    growing = Declaration(name="growing", levels=("store",), features=chunks, capacity="growing")
    assert {trace.id for trace in traces(growing)} == {"forge/single", "forge/prompt"}


def test_loading_brings_no_mpmath_and_the_package_alone_brings_nothing() -> None:
    code = (
        "import sys, conformance.golden_files as g, conformance.golden_files.command;"
        "heavy = {'numpy', 'yaml', 'mpmath', 'flint'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "[g.load(name).traces() for name in g.names()];"
        "g.show('ch37');"
        "assert not {'mpmath', 'flint', 'reference_impl.exact'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=GOLDEN.parent)
