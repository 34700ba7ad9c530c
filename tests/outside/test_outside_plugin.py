"""The plugin as pytest finds it: through the entry point of the installed wheel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Run

HEAVY = {"numpy", "yaml", "mpmath", "hypothesis", "jsonschema"}
TELLS_MODULES = """
import sys
from pathlib import Path

def test_own():
    Path("modules.txt").write_text("\\n".join(sorted(sys.modules)))
"""


def modules(run: Run, folder: Path, *options: str) -> set[str]:
    (folder / "test_own.py").write_text(TELLS_MODULES)
    ended = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)
    assert ended.returncode == 0, ended.stdout
    return set((folder / "modules.txt").read_text().split())


def test_an_unrelated_run_is_left_alone(run: Run, tmp_path: Path) -> None:
    with_plugin = modules(run, tmp_path)
    without = modules(run, tmp_path, "-p", "no:kv-conformance")
    assert "conformance.plugin" in with_plugin
    assert "conformance.plugin" not in without
    assert with_plugin - without == {"conformance", "conformance.plugin"}
    assert not (with_plugin - without) & HEAVY


def test_it_collects_when_it_is_asked(run: Run) -> None:
    ended = run(
        sys.executable, "-m", "pytest", "-q", "--strict-markers", "--strict-config", "-W", "error",
        "--kv-adapter", "numpy", "-k", "mod-square or verdict",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout.splitlines()[-1]


def test_it_can_be_switched_off(run: Run) -> None:
    ended = run(sys.executable, "-m", "pytest", "-p", "no:kv-conformance", "--kv-adapter", "numpy")
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--kv-adapter" in ended.stderr


@pytest.mark.parametrize("name", ["kv-conformance", "conformance.plugin"])
def test_it_can_be_named_where_plugins_are_not_searched_for(run: Run, name: str) -> None:
    ended = run(
        sys.executable, "-m", "pytest", "-q", "-p", name,
        "--kv-adapter", "numpy", "kv-conformance::verdict[gqa]",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("1 passed")


def test_two_workers_agree(run: Run) -> None:
    ended = run(sys.executable, "-m", "pytest", "-q", "-n", "2", "--kv-adapter", "numpy", "-k", "mod-")
    assert ended.returncode == 0, ended.stdout


def test_help_tells_of_the_options(run: Run) -> None:
    text = run(sys.executable, "-m", "pytest", "--help").stdout
    for word in ("--kv-adapter=ADAPTER", "--kv-profile=PROFILE", "kv_adapter (string)"):
        assert word in text
    assert "kv_conformance" in run(sys.executable, "-m", "pytest", "--markers").stdout
