"""The command `golden`, and what it shows."""

from __future__ import annotations

import argparse
import re
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.golden_files import load, names, show
from conformance.golden_files.command import add_arguments, run
from conformance.golden_files.display import fixed

GOLDEN = Path(str(files("golden")))


def golden(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="golden")
    add_arguments(parser)
    return run(parser.parse_args(words))


def test_check_of_a_whole_folder_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert golden("check", "mod-square", "ch37") == 0
    said = capsys.readouterr()
    assert said.out == "golden files: clean\n"
    assert said.err.endswith("[2/2] derived/mod-square.yaml: 234 numbers proved, 0 differences\n")


def test_check_prints_every_difference_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(GOLDEN, tmp_path / "golden")
    path = copy / "derived" / "mod-square.yaml"
    path.write_text(path.read_text("utf-8").replace("0.740234375", "0.740234376"), "utf-8")
    assert golden("check", "mod-square", "--directory", str(copy)) == 1
    out = capsys.readouterr().out
    assert f"{path}:" in out
    assert "sequences.first.exact.output.rows[0]: number 0 is 0.740234376" in out
    assert out.endswith("golden files: 1 difference\n")


def test_regenerate_writes_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(GOLDEN, tmp_path / "golden")
    (copy / "derived" / "mean.yaml").unlink()
    assert golden("regenerate", "--directory", str(copy)) == 0
    assert capsys.readouterr().out == f"golden files: {len(names()) + 1} written to {copy}\n"
    for path in GOLDEN.glob("*/*.yaml"):
        made, shipped = ((root / path.relative_to(GOLDEN)).read_text("utf-8") for root in (copy, GOLDEN))
        version = re.compile(r"\(mpmath [^)]*\)")
        assert version.sub("", made) == version.sub("", shipped)
    assert names(directory=copy) == names()


def test_show_without_a_name_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert golden("show") == 0
    assert capsys.readouterr().out.split() == list(names())


@pytest.mark.parametrize("name", names())
def test_every_file_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden("show", name) == 0
    out = capsys.readouterr().out
    document = load(name)
    assert out.startswith(f"{name} (level {document.level})\n{document.about}\n")
    for sequence in document.sequences.values():
        assert f"sequence {sequence.name} on layer main" in out
        for field in sequence.exact:
            assert f"\n  {field} [" in out
    for trace in document.traces():
        schedule = trace.id.partition("/")[2]
        assert f"schedule {schedule}: {len(trace.steps)} steps" in out
    assert ("published, digit for digit" in out) == ("published" in document.tree)


def test_show_has_the_exact_values_and_the_published_ones() -> None:
    text = show("ch37")
    assert "    b0 t2      0.629044078  0.945303958  0.374718490 -0.583589471\n" in text
    assert "    b0 h1 t2  0.054696042457 0.370955922197 0.574348035346\n" in text
    assert "cached_output: 0.629044078, 0.945303958, 0.374718490, -0.583589471\n" in text
    assert "layer base-200: that of main, with rope (base 200)\n" in text
    assert "with layer main: label full_cache, rejected (kind full), unchanged of-1\n" in text
    assert "-0.000000000 " not in text


def test_show_has_every_published_figure_of_the_decoder() -> None:
    text = show("ch38")
    for logit in load("ch38").tree["published"]["prefill"]["logits"]:
        assert text.count(logit) >= 2, "once exact and rounded, once published"
    assert "  tokens (input x) [1, 3]\n    t0        0 1 2\n" in text


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="there is no golden file 'nothing'"):
        golden("show", "nothing")


@pytest.mark.parametrize(
    ("token", "places", "said"),
    [
        ("0x1.8p+1", 2, "3.00"),
        ("-1/8", 2, "-0.12"),
        ("3/8", 2, "0.38"),
        ("-1/1073741824", 4, "0.0000"),
        ("4.102208516582292502429445177470224150361e-17", 9, "0.000000000"),
        ("12", 0, "12"),
        ("0.6666666666666666666666666666666666666666667", 3, "0.667"),
    ],
)
def test_numbers_are_rounded_to_even_without_a_signed_zero(token: str, places: int, said: str) -> None:
    assert fixed(token, places) == said
