"""What the matrix says of a run: survivors, flagged controls, the drill, and what has changed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.judge.findings import Check, Difference
from conformance.kill_matrix import files
from conformance.kill_matrix.assess import assess
from conformance.kill_matrix.cells import Cell, Look, Matrix, Row, cells
from conformance.kill_matrix.page import page
from conformance.kill_matrix.render import matrix_text
from conformance.killers import killers
from conformance.killers.controls import controls


def cell(requirement: str, *kinds: str, margin: float = 1e11, faint: bool = False) -> Cell:
    return Cell(requirement, 1, margin, "append-five", 1, faint, kinds or ("close output",))


def row(name: str, violates: str, *found: Cell, level: str = "layer") -> Row:
    return Row(name, level, control=False, violates=violates, fault="SCALE", says="wrong", cells=found)


def check(requirement: str, *, share: float = 0.0, gap: float = 0.0, expected: float = 1.0) -> Check:
    found = None
    if share:
        found = Difference("output", (0,), expected, expected + gap, gap, 1e-12, share, 1.0)
    return Check(requirement, "fail", "t", 3, "row 3", difference=found, kind="close output")


def test_a_killer_that_nothing_catches_survives() -> None:
    found = assess(Matrix((row("silent", "AGREE-OUTPUT"),)))
    assert [r.id for r in found.survivors] == ["silent"]
    assert not found.clean


def test_a_killer_that_only_another_requirement_catches_is_unmeant() -> None:
    found = assess(Matrix((row("elsewhere", "AGREE-OUTPUT", cell("STORE-KEYS")),)))
    assert [r.id for r in found.unmeant] == ["elsewhere"]
    assert found.survivors == ()
    assert not found.clean


def test_a_control_with_reasons_is_flagged() -> None:
    wrong = Row("honest", "layer", control=True, says="differs", reasons=("AGREE-OUTPUT fail: why",))
    assert [r.id for r in assess(Matrix((wrong,))).flagged] == ["honest"]


def test_a_requirement_that_no_killer_of_its_level_fails_is_unguarded() -> None:
    matrix = Matrix((row("scaled", "AGREE-OUTPUT", cell("AGREE-OUTPUT")),))
    unguarded = assess(matrix).unguarded
    assert ("layer", "STORE-KEYS") in unguarded
    assert ("layer", "AGREE-OUTPUT") not in unguarded
    assert all(level == "layer" for level, _ in unguarded), "levels without killers are not asked"


def test_the_drill_tells_needless_from_shadowed_looks() -> None:
    """With `same output` off nothing changes; with `close keys` off another look still catches the killer."""
    looks = frozenset(Look("layer", "STORE-KEYS", kind) for kind in ("close keys", "frame", "same output"))
    both = row("both", "STORE-KEYS", cell("STORE-KEYS", "close keys", "frame"))
    alone = row("alone", "STORE-KEYS", cell("STORE-KEYS", "frame"))
    found = assess(Matrix((both, alone), looks))
    assert [look.kind for look in found.needless] == ["same output"]
    assert [look.kind for look in found.shadowed] == ["close keys"]


def test_a_look_of_another_level_does_not_count() -> None:
    looks = frozenset({Look("attention", "STORE-KEYS", "close keys")})
    found = assess(Matrix((row("layer one", "STORE-KEYS", cell("STORE-KEYS", "close keys")),), looks))
    assert found.needless == tuple(looks)


def test_cells_gather_findings_by_requirement() -> None:
    found = cells([check("B", share=50.0), check("A"), check("B", share=1e6)])
    assert [(c.requirement, c.findings, c.margin) for c in found] == [("A", 1, math.inf), ("B", 2, 1e6)]
    assert cells([Check("A", "pass", "t", 0, "row")]) == ()


@pytest.mark.parametrize(
    ("finding", "faint"),
    [
        (check("A"), False),
        (check("A", share=17.0), False),
        (check("A", share=1.5), True),
        (check("A", share=math.inf, gap=1e-16), True),
        (check("A", share=math.inf, gap=1e-3), False),
        (check("A", share=math.inf, gap=0.0), False),
    ],
)
def test_what_rounding_decides_is_faint(finding: Check, faint: bool) -> None:
    assert cells([finding])[0].faint is faint


def document(*rows: Row) -> dict[str, object]:
    matrix = Matrix(rows)
    return files.document(matrix, assess(matrix))


def changes(old: Row, new: Row) -> list[str]:
    return list(files.differences(document(old), document(new)))


def test_nothing_has_changed_between_equal_matrices() -> None:
    same = row("a", "AGREE-OUTPUT", cell("AGREE-OUTPUT", margin=3e11), cell("STORE-KEYS"))
    other = row("a", "AGREE-OUTPUT", cell("AGREE-OUTPUT", margin=2e11), cell("STORE-KEYS"))
    assert changes(same, other) == []


@pytest.mark.parametrize(
    ("cells_now", "said"),
    [
        ((), "AGREE-OUTPUT had 1e+11 bounds at append-five step 1, has missed"),
        ((cell("AGREE-OUTPUT", margin=1e5),), "has 1e+05 bounds"),
        ((cell("AGREE-OUTPUT", margin=math.inf),), "has broken"),
        ((cell("AGREE-OUTPUT"), cell("STORE-KEYS")), "STORE-KEYS catches it now"),
    ],
)
def test_what_has_changed_is_told(cells_now: tuple[Cell, ...], said: str) -> None:
    old = row("a", "AGREE-OUTPUT", cell("AGREE-OUTPUT"))
    told = changes(old, row("a", "AGREE-OUTPUT", *cells_now))
    assert len(told) == 1
    assert told[0].startswith("a: ")
    assert said in told[0]


def test_what_rounding_decides_is_no_change() -> None:
    old = row("a", "AGREE-OUTPUT", cell("AGREE-OUTPUT"))
    new = row("a", "AGREE-OUTPUT", cell("AGREE-OUTPUT"), cell("RESET-REPLAY", faint=True))
    assert changes(old, new) == []


def test_killers_that_come_and_go_are_told() -> None:
    one, two = (row(name, "AGREE-OUTPUT", cell("AGREE-OUTPUT")) for name in ("one", "two"))
    assert changes(one, two) == ["two is new", "one is gone"]


def test_the_file_is_json_with_a_killer_a_line() -> None:
    data = document(row("a", "AGREE-OUTPUT", cell("AGREE-OUTPUT")), row("b", "AGREE-OUTPUT"))
    text = files.text(data)
    assert json.loads(text) == data
    assert sum(line.startswith('"a": ') for line in text.splitlines()) == 1


def test_the_text_names_what_is_missed() -> None:
    missed = row("a", "AGREE-OUTPUT", cell("STORE-KEYS"))
    matrix = Matrix((missed, row("b", "STORE-KEYS", cell("STORE-KEYS"))))
    text = matrix_text(matrix, assess(matrix))
    assert "MISSED  layer a" in text
    assert "caught  layer b" in text
    assert "the matrix is NOT full" in text


def test_the_page_shows_every_class_of_the_run_with_its_symptom() -> None:
    control = Row("plain", "layer", control=True, says="as it stands")
    matrix = Matrix((row("a", "AGREE-OUTPUT", cell("AGREE-OUTPUT")), control))
    text = page(matrix, assess(matrix))
    assert "### SCALE" in text
    assert "attention is too sharp or too flat" in text
    assert "| `a` | wrong | AGREE-OUTPUT | 1e+11 bounds | append-five step 1 |  |" in text
    assert "| `plain` | as it stands | conformant |" in text


def test_the_committed_matrix_holds_every_killer_and_control() -> None:
    """Their cells are compared by the command, which takes a minute or two."""
    found = files.committed()
    assert list(found["killers"]) == [entry.id for entry in killers()]
    assert list(found["controls"]) == [entry.id for entry in controls()]
    assert {entry.id: entry.violates for entry in killers()} == {
        name: entry["violates"] for name, entry in found["killers"].items()
    }
    assert [name for name, entry in found["killers"].items() if entry["seen"] == "missed"] == []
    assert set(found["controls"].values()) == {"conformant"}


def test_the_committed_page_names_every_killer() -> None:
    text = (Path(__file__).parents[1] / files.PAGE).read_text(encoding="utf-8")
    assert [entry.id for entry in killers() if f"`{entry.id}`" not in text] == []


def test_the_command_plays_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["killers", "-k", "attention_scale_none", "--processes", "1"]) == 0
    assert "caught  attention_scale_none" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["-k", "no_such_killer"], ["--processes", "0"], ["--write", "-k", "rope"]]
)
def test_the_command_refuses_what_it_cannot_do(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["killers", *arguments]) == 2
    assert capsys.readouterr().err
