"""Looks like, measured: each killer diagnosed as an unknown implementation."""

from __future__ import annotations

import pytest

from conformance.cli import main
from conformance.confusion import Diagnosis, diagnose, page, told
from conformance.killers import killers
from conformance.killers.groups import GROUPS, TAKEN_FOR_ANOTHER, Group

KNOWN = {killer.id: killer for killer in killers()}


@pytest.mark.parametrize(
    "name", ["rope_offset_plus1", "reset_noop", "scale_none", "gqa_tile", "attention_write_one_late"]
)
def test_a_killer_is_told_by_its_own_class(name: str) -> None:
    assert diagnose(name).right


def test_what_is_confused_is_listed_with_what_it_was_taken_for() -> None:
    right = Diagnosis("rope_none", "ROPE", ("rope_none",), "ROPE")
    wrong = Diagnosis("scale_none", "SCALE", ("softmax_f32",), "DTYPE-SOFTMAX")
    lines = told([right, wrong])
    assert "1 of 2 (50.0 %)" in lines
    assert "SCALE taken for DTYPE-SOFTMAX: 1" in lines
    assert "scale_none: softmax_f32" in lines


def test_the_command_fails_below_its_goal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Diagnosis("rope_none", "ROPE", (), "")
    monkeypatch.setattr("conformance.confusion.confusion", lambda *_, **__: [wrong])
    assert main(["killers", "--confusion", "-k", "rope_none"]) == 1
    assert "no match" in capsys.readouterr().out
    assert main(["killers", "--confusion", "-k", "no such killer"]) == 2


@pytest.mark.parametrize("group", GROUPS, ids=[group.name for group in GROUPS])
def test_a_group_is_of_one_level_and_known_to_its_members(group: Group) -> None:
    assert len({KNOWN[member].level for member in group.members}) == 1
    for member in group.members:
        assert {member, *KNOWN[member].equal_to} == set(group.members)


@pytest.mark.parametrize("group", GROUPS[::5], ids=[group.name for group in GROUPS[::5]])
def test_the_members_of_a_group_are_named_together(group: Group) -> None:
    assert set(group.members) <= set(diagnose(group.members[0]).named)


def test_every_explanation_is_of_a_killer_that_is_there() -> None:
    assert TAKEN_FOR_ANOTHER.keys() <= KNOWN.keys()


def test_the_page_gives_the_shares_the_reasons_and_the_groups() -> None:
    right = Diagnosis("rope_none", "ROPE", ("rope_none",), "ROPE")
    wrong = Diagnosis(
        "reset_rebinds", "RESET-REBINDS", ("revision_unchecked_on_empty_cache",), "STALE-WEIGHTS"
    )
    written = page([right, wrong], "2026-01-31")
    assert "on 2026-01-31" in written
    assert "own class first: 1 of 2 (50.0 %)" in written
    assert (
        f"`reset_rebinds`: `revision_unchecked_on_empty_cache`; {TAKEN_FOR_ANOTHER['reset_rebinds']}"
        in written
    )
    assert all(group.name in written for group in GROUPS)


def test_a_part_of_the_killers_is_not_written_as_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["killers", "--confusion", "--write", "-k", "rope_none"]) == 2
    assert "leave -k and --every out" in capsys.readouterr().err
