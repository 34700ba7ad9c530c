"""Report files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.report.files import check_writable, write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_whole(path, "one\n")
    write_whole(path, "two \N{GREEK SMALL LETTER KAPPA}\n")
    assert path.read_text(encoding="utf-8") == "two \N{GREEK SMALL LETTER KAPPA}\n"
    assert os.listdir(tmp_path) == ["r.json"]  # noqa: PTH208 - names are wanted
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    write_whole(path, "old")

    def full(_: Path, __: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UsageError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path], "no temporary file stays behind"


def test_a_place_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--json .*there is no folder"):
        check_writable(tmp_path / "no" / "r.json", "--json")
    with pytest.raises(UsageError, match="it is a folder"):
        check_writable(tmp_path, "--json")
