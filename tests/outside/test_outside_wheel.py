"""What the wheel and the sdist hold, and the command line of the installed wheel in an empty folder."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Installed, Run

ROOT = Path(__file__).parents[2]
DATA = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("golden/**/*.yaml", "conformance/schemas/**/*.json", "conformance/scaffold/*.txt")
    for path in ROOT.glob(pattern)
)
SOURCES = sorted(
    str(path.relative_to(ROOT))
    for package in ("conformance", "reference_impl", "golden")
    for path in (ROOT / package).rglob("*.py")
)


def test_the_wheel_holds_every_module_golden_file_schema_and_scaffold(installed: Installed) -> None:
    held = set(zipfile.ZipFile(installed.wheel).namelist())
    assert len(DATA) > 15
    assert not {*DATA, *SOURCES, "conformance/py.typed"} - held
    assert not any(name.startswith(("tests/", "docs/")) for name in held)
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_the_sdist_holds_what_is_needed_to_build_and_to_test(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {*DATA, *SOURCES, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml"}
    assert not wanted - held
    assert "tests/outside/test_outside_wheel.py" in held


def test_the_main_job_runs_from_an_empty_folder(installed: Installed, run: Run) -> None:
    ended = run(installed.command, "check")
    assert (ended.returncode, ended.stdout.splitlines()[-1].split(":")[0]) == (0, "conformant"), ended.stdout
    where = run(
        sys.executable, "-c", "import conformance, golden; print(conformance.__file__, golden.__file__)"
    )
    assert all(place.startswith(str(installed.packages)) for place in where.stdout.split())


def test_a_scaffold_written_here_is_found_here(installed: Installed, run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_adapter.py").write_text(run(installed.command, "new", "attention").stdout)
    for name in ("my_adapter:adapter", "my_adapter.py:adapter"):
        ended = run(installed.command, "check", name)
        assert ended.returncode == 3
        assert "fill in build_cache" in ended.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["golden", "show", "mod-square"],
        ["explain", "STORE-KEYS"],
        ["list"],
        ["replay", "mod-square", "numpy"],
    ],
)
def test_the_other_commands_find_their_data(installed: Installed, run: Run, words: list[str]) -> None:
    ended = run(sys.executable, "-W", "error", "-m", "conformance", *words)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(ended.stdout.splitlines()) > 8


def test_nothing_of_the_machine_that_built_it_is_inside(installed: Installed) -> None:
    archive = zipfile.ZipFile(installed.wheel)
    for name in archive.namelist():
        assert str(ROOT).encode() not in archive.read(name), name
