"""The wheel, built once and installed into a folder of its own; nothing here may see the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Installed:
    """Where the built files and the installed packages are."""

    wheel: Path
    sdist: Path
    packages: Path

    @property
    def command(self) -> str:
        """The console script."""
        return str(self.packages / "bin" / "kv-conformance")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the sdist, the wheel from the sdist, and install the wheel without its dependencies."""
    dist, packages = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("packages")
    _quietly("-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT))
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    _quietly(
        "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(packages), str(wheel)
    )
    return Installed(wheel, sdist, packages)


@pytest.fixture
def run(installed: Installed, tmp_path: Path) -> Run:
    """Run a command in an empty folder where only the installed packages can be imported."""

    def command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON", "COV"))}
        return subprocess.run(
            words, cwd=tmp_path, env={**kept, "PYTHONPATH": str(installed.packages), **variables},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return command


def _quietly(*arguments: str) -> None:
    ended = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
