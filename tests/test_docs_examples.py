"""The code in the documents runs and does what the text says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance import diagnosis
from conformance.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def example() -> str:
    page = (ROOT / "docs" / "writing-an-adapter.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- example: my_adapter.py -->\n```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_adapter_is_conformant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "documented_adapter.py"
    path.write_text(example())
    assert main(["check", f"{path}:adapter"]) == 0, capsys.readouterr().out
    assert "chunks: " in capsys.readouterr().out.splitlines()[-1]


def test_broken_as_the_text_says_it_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "explain", lambda *_: ())
    path = tmp_path / "documented_adapter_broken.py"
    broken = example().replace("np.sqrt(query.shape[3])", "query.shape[3]")
    assert broken != example()
    path.write_text(broken)
    assert main(["check", f"{path}:adapter"]) == 1
    assert "AGREE-OUTPUT  fail" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere_and_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for word in re.findall(r"^(?:\.venv/bin/)?kv-conformance ([a-z]+)", text, re.MULTILINE):
        assert word in COMMANDS, f"{page.name} names the command {word}"


@pytest.mark.parametrize("name", ["main job", "tests"])
def test_the_commands_of_the_readme_stand_where_ci_looks_for_them(name: str) -> None:
    """One line each, behind a marker, within the first screen."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^<!-- {name} -->\n```sh\n([^\n]+)\n```$", text, re.MULTILINE)
    assert found is not None
    assert found.group(1).startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert text[: found.start()].count("\n") < 30
    assert name in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
