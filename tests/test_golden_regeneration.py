"""Checking against a fresh computation, and making the files anew: all or none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ConformanceError, TraceError, UsageError
from conformance.golden_files import build, check, load, names, regenerate, regeneration, verification
from conformance.golden_files.certified import prove
from conformance.golden_files.condition import provable_bound, rounded_up
from conformance.golden_files.fixtures import derived
from conformance.trace.yaml_tree import parse
from reference_impl.exact import Arithmetic

GOLDEN = Path(str(files("golden")))


def quiet(_: str) -> None:
    pass


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


@pytest.fixture(scope="module")
def two_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two small files, made by the builders of these alone."""
    folder = Path(shutil.copytree(GOLDEN, tmp_path_factory.mktemp("two") / "golden"))
    with pytest.MonkeyPatch.context() as patch:
        _build_two(patch)
        regenerate(folder, progress=quiet)
    return folder


@pytest.fixture
def two(two_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, and the builders of its two files alone."""
    _build_two(monkeypatch)
    return Path(shutil.copytree(two_files, tmp_path / "golden"))


def _build_two(patch: pytest.MonkeyPatch) -> None:
    every = build.builders()
    kept = {file: every[file] for file in ("published/ch37.yaml", "derived/mod-square.yaml")}
    for module in (build, regeneration, verification):
        patch.setattr(module, "builders", lambda: kept)


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.yaml")}


def replace(path: Path, old: str, new: str) -> int:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return text[: text.index(old)].count("\n") + 1


def without_version(text: str) -> str:
    return re.sub(r"\(mpmath [^)]*\)", "", text)


def test_the_shipped_files_equal_a_fresh_computation() -> None:
    said: list[str] = []
    assert check(progress=said.append) == []
    assert len(said) == 1 + len(names())
    assert said[-1].startswith(f"[{len(names())}/{len(names())}] derived/weights.yaml: 726 numbers proved")


def test_balls_prove_the_same_digits() -> None:
    pytest.importorskip("flint", reason="python-flint is an extra")
    assert check(["ch37", "mod-square", "weights"], proof="ball", progress=quiet) == []


def test_a_changed_golden_digit_is_told_with_what_it_should_be(copy: Path) -> None:
    line = replace(copy / "derived" / "mod-square.yaml", "0.62175397354829", "0.62175397354828")
    (found,) = check(["mod-square"], directory=copy, progress=quiet)
    assert (found.line, found.path) == (line, "sequences.first.exact.weights.rows[1]")
    assert "number 0 is 0.62175397354828" in found.problem
    assert "a fresh computation gives 0.62175397354829" in found.problem
    assert str(found).startswith(f"{copy}/derived/mod-square.yaml:{line}: sequences.first.exact")


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("-3/4 -3/8 0 3/8", "-3/4 -3/8 0 5/8", "inputs.x.rows[0]"),
        ('output: "132', 'output: "131', "sequences.first.kappa.output"),
        ('max_positions: "16"', 'max_positions: "17"', "layers.main.config.rope.max_positions"),
        ("first[3:5]", "first[3:4]", "schedules.chunked[1].sequence"),
    ],
)
def test_a_change_of_any_kind_is_found(copy: Path, old: str, new: str, path: str) -> None:
    line = replace(copy / "derived" / "mod-square.yaml", old, new)
    found = check(["mod-square"], directory=copy, progress=quiet)
    assert [(one.line, one.path) for one in found] == [(line, path)]


def test_a_change_that_the_manifest_was_made_to_agree_with_is_still_found(copy: Path) -> None:
    path = copy / "derived" / "mod-square.yaml"
    replace(path, "0.62175397354829", "0.62175397354828")
    texts = {file: (copy / file).read_text("utf-8") for file in build.builders()}
    (copy / "manifest.yaml").write_text(regeneration.dump(regeneration.manifest_tree(texts)), "utf-8")
    assert load("mod-square", directory=copy).id == "mod-square"
    (found,) = check(["mod-square"], directory=copy, progress=quiet)
    assert found.path == "sequences.first.exact.weights.rows[1]"


def test_versions_of_tools_are_not_compared_but_the_rule_is(copy: Path) -> None:
    path = copy / "derived" / "mod-square.yaml"
    texts = {file: (copy / file).read_text("utf-8") for file in build.builders()}
    text = re.sub(r"\(mpmath [^)]*\)", "(mpmath 0.1)", texts["derived/mod-square.yaml"])
    assert text != texts["derived/mod-square.yaml"]
    texts["derived/mod-square.yaml"] = text
    path.write_text(text, "utf-8")
    (copy / "manifest.yaml").write_text(regeneration.dump(regeneration.manifest_tree(texts)), "utf-8")
    assert check(["mod-square"], directory=copy, progress=quiet) == []
    replace(path, "query W(3,5,1)", "query W(3,5,2)")
    found = check(["mod-square"], directory=copy, progress=quiet)
    assert [one.path for one in found] == ["provenance.generator"]


def test_files_too_many_or_too_few_are_told(copy: Path) -> None:
    shutil.copy(copy / "derived" / "mean.yaml", copy / "derived" / "median.yaml")
    (copy / "published" / "forge.yaml").unlink()
    found = [str(one) for one in check(["ch37"], directory=copy, progress=quiet)]
    assert found == [
        f"{copy}/published/forge.yaml: the manifest records this file, but it is not there",
        f"{copy}/derived/median.yaml: the manifest does not know this file; remove it",
    ]


def test_a_file_that_is_cut_is_a_difference_not_a_crash(copy: Path) -> None:
    path = copy / "derived" / "mod-square.yaml"
    path.write_text(path.read_text("utf-8")[:900], "utf-8")
    found = check(["mod-square"], directory=copy, progress=quiet)
    assert len(found) >= 1
    assert all(one.file == f"{copy}/derived/mod-square.yaml" for one in found)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match="no golden file 'mod-round'"):
        check(["mod-round"], progress=quiet)


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ('0.786190991", "0', '0.786190992", "0', "steps[1].cached_output[1]"),
        ("cache:1->2 shape", "cache:1->3 shape", "report_lines[1]"),
        ('weight: "0.333333333333"', 'weight: "0.333333333334"', "steps[2].heads[0].rows[0].weight"),
    ],
)
def test_a_published_figure_that_the_exact_value_contradicts(
    copy: Path, old: str, new: str, path: str
) -> None:
    line = replace(copy / "published" / "ch37.yaml", old, new)
    (found,) = check(["ch37"], directory=copy, progress=quiet)
    assert (found.line, found.path) == (line, f"published.{path}")
    assert "the exact value gives" in found.problem
    with pytest.raises(TraceError, match="the exact value gives"):
        regenerate(copy, accept_figures=True, progress=quiet)


def test_regenerating_changes_nothing_where_nothing_has_changed(two: Path) -> None:
    before = contents(two)
    shipped = (GOLDEN / "derived" / "mod-square.yaml").read_text("utf-8")
    regenerate(two, progress=quiet)
    assert contents(two) == before
    assert without_version(before["derived/mod-square.yaml"].decode()) == without_version(shipped)
    assert sorted(before) == ["derived/mod-square.yaml", "manifest.yaml", "published/ch37.yaml"]


def test_regenerating_mends_a_changed_digit(two: Path) -> None:
    before = contents(two)
    replace(two / "derived" / "mod-square.yaml", "0.62175397354829", "0.62175397354828")
    regenerate(two, progress=quiet)
    assert contents(two) == before


def test_a_changed_quotation_is_not_carried_over_unseen(two: Path) -> None:
    line = replace(two / "published" / "ch37.yaml", 'tolerance: "1e-12"', 'tolerance: "2e-12"')
    before = contents(two)
    with pytest.raises(ConformanceError, match=rf"ch37.yaml:{line}: published.tolerance.*--accept-figures"):
        regenerate(two, progress=quiet)
    assert contents(two) == before
    regenerate(two, accept_figures=True, progress=quiet)
    assert load("ch37", directory=two).tree["published"]["tolerance"] == "2e-12"


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_failure_on_the_way_leaves_every_file_as_it_was(
    two: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    replace(two / "derived" / "mod-square.yaml", "0.62175397354829", "0.62175397354828")
    (two / "derived" / "older.yaml").write_text("left over\n", "utf-8")
    before, moves, move = contents(two), [], Path.replace

    def failing(self: Path, target: Any) -> Any:
        moves.append(target)
        if len(moves) == fails_at:
            raise OSError("the disk is full")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="the disk is full"):
        regenerate(two, progress=quiet)
    assert contents(two) == before
    assert not list(two.parent.glob(".golden-*"))


def test_a_file_that_does_not_load_replaces_nothing(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(two)
    whole = regeneration.fresh_tree

    def without_caches(*args: Any, **named: Any) -> Any:
        tree, count = whole(*args, **named)
        return {key: value for key, value in tree.items() if key != "caches"}, count

    monkeypatch.setattr(regeneration, "fresh_tree", without_caches)
    with pytest.raises(TraceError, match="'caches' is missing"):
        regenerate(two, progress=quiet)
    assert contents(two) == before


def test_a_value_that_cannot_be_certified_is_refused() -> None:
    def run(arithmetic: Arithmetic) -> Any:
        """Equal weights of values 1 and -1: zero, but no enclosure of irrational numbers can tell."""
        share = arithmetic.exp(arithmetic.root(2))
        return {"output": [[(share - share) / (share + share)]]}

    with pytest.raises(ConformanceError, match=r"tie, output, row 0: .*sign is unknown.*change the inputs"):
        prove(run, proof="interval", where="tie")


def test_an_oracle_that_disagrees_with_the_proof_is_told() -> None:
    def run(arithmetic: Arithmetic) -> Any:
        return {"output": [[arithmetic.number(1 if "iv" in arithmetic.name else 2)]]}

    with pytest.raises(ConformanceError, match="1 is proved, but mpmath gives 2"):
        prove(run, proof="interval", where="here")


def test_precision_grows_until_the_digits_are_decided() -> None:
    tiny = Fraction(1, 10**70)

    def run(arithmetic: Arithmetic) -> Any:
        if arithmetic.name.startswith("mpmath,"):
            return {"output": [[arithmetic.number(tiny)]]}
        third = arithmetic.number(Fraction(1, 3))
        return {"output": [[third - (third - arithmetic.number(tiny))]]}

    proved = prove(run, proof="interval", where="here")
    assert proved.decimals == {"output": [["1." + "0" * 39 + "e-70"]]}
    assert proved.certificate == "mpmath.iv, 120 digits"


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (5486.01, 3, "5490"), (73.0, 3, "73"), (73.00001, 3, "73.1"), (73.0 * (1 + 1e-12), 3, "73"),
        (0.0, 3, "0"), (3.87e-10, 2, "3.9e-10"), (0.0123, 2, "0.013"), (999.9, 3, "1000"),
    ],
)
def test_conditions_are_rounded_up(value: float, digits: int, said: str) -> None:
    assert rounded_up(value, digits) == said


def test_a_bound_is_stated_only_where_the_promise_is_not_provable() -> None:
    assert provable_bound(9007.0) is None
    assert provable_bound(9008.0) == "1.1e-12"


def test_every_fixture_has_a_name_of_its_own() -> None:
    ids = [fixture.id for fixture in derived()]
    assert len(set(ids)) == len(ids)


def test_the_manifest_knows_every_file_and_every_line() -> None:
    tree = parse((GOLDEN / "manifest.yaml").read_text("utf-8")).tree
    assert isinstance(tree, dict)
    for file, entry in tree["files"].items():
        marks = [mark for row in entry["lines"] for mark in row.split()]
        assert len(marks) == (GOLDEN / file).read_text("utf-8").count("\n")
