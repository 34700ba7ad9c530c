"""The adapters that `kv-conformance new` writes: untouched they run, end incomplete, name where to begin."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from conformance import adapter as protocols
from conformance import diagnosis
from conformance.adapter import FEATURE_METHODS, FEATURES, LEVELS
from conformance.adapters.naming import resolve
from conformance.cli import main
from conformance.commands.new import template

FIRST = {"store": "build_store", "attention": "build_cache", "layer": "build_layer", "decoder": "build_model"}


@pytest.fixture(autouse=True)
def undiagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a scaffold looks like is of no interest here, and takes time."""
    monkeypatch.setattr(diagnosis, "explain", lambda *_: ())


@pytest.fixture
def adapter(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The name of an untouched scaffold of the level that the test asks for."""
    assert main(["new", request.param]) == 0
    path = tmp_path / f"untouched_{request.param}.py"
    path.write_text(capsys.readouterr().out)
    return f"{path}:adapter"


@pytest.mark.parametrize("level", LEVELS)
def test_it_has_every_required_method_in_order_and_no_other(level: str) -> None:
    protocol = getattr(protocols, f"{level.capitalize()}Adapter")
    required = [n for n in vars(protocol) if not n.startswith("_") and callable(vars(protocol)[n])]
    made = next(node for node in ast.parse(template(level)).body if isinstance(node, ast.ClassDef))
    written = [node.name for node in made.body if isinstance(node, ast.FunctionDef)]
    assert written == required


@pytest.mark.parametrize("level", LEVELS)
def test_it_tells_of_every_feature_of_its_level_by_a_name_that_exists(level: str) -> None:
    text = template(level)
    comment = text[text.index("# What it can do") : text.index("features=frozenset()")]
    named = {word for word in comment.split('"')[1::2] if word in FEATURES or word.isidentifier()} - {
        "any",
        "key",
    }
    assert named
    assert named <= set(FEATURES)
    for feature in named & set(FEATURE_METHODS):
        assert f"{FEATURE_METHODS[feature]}(" in text


@pytest.mark.parametrize("adapter", LEVELS, indirect=True)
def test_untouched_it_is_incomplete_and_names_the_first_method(
    adapter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", adapter]) == 3
    out = capsys.readouterr().out
    level = resolve(adapter).declaration.levels[0]
    assert out.splitlines()[-1].startswith("incomplete: ")
    assert set(re.findall(r"fill in\s+(\w+)", out)) == {FIRST[level]}
    assert out.count("  error\n") == 1, "one cause is told once"


@pytest.mark.parametrize("adapter", ["layer"], indirect=True)
def test_the_next_method_is_named_when_the_first_is_filled_in(
    adapter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(adapter.removesuffix(":adapter"))
    text = path.read_text()
    start = text.index("        raise NotImplementedError")
    path = path.with_name("one_filled_in.py")
    path.write_text(text[:start] + "        return config\n" + text[text.index("\n", start) + 1 :])
    assert main(["check", f"{path}:adapter"]) == 3
    assert "fill in build_cache" in capsys.readouterr().out


@pytest.mark.parametrize("adapter", LEVELS, indirect=True)
def test_it_is_an_adapter_of_its_level(adapter: str) -> None:
    level = Path(adapter).name.removeprefix("untouched_").removesuffix(".py:adapter")
    assert resolve(adapter).declaration.levels == (level,)
