"""Looks like, measured: each killer diagnosed as an unknown implementation."""

from __future__ import annotations

import pytest

from conformance.cli import main
from conformance.confusion import Diagnosis, diagnose, told
from conformance.killers import killers


@pytest.mark.parametrize(
    "name", ["rope_offset_plus1", "reset_noop", "scale_none", "gqa_tile", "attention_write_one_late"]
)
def test_a_killer_is_told_by_its_own_class(name: str) -> None:
    assert diagnose(name).right


def test_what_is_confused_is_listed_with_what_it_was_taken_for() -> None:
    right = Diagnosis("rope_none", "ROPE", ("rope_none",), "ROPE")
    wrong = Diagnosis("scale_none", "SCALE", ("softmax_f32",), "DTYPE-SOFTMAX")
    lines = told([right, wrong], killers())
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
