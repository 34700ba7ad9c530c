"""Adapter names: every form, and every way in which one can be wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.adapters.naming import BUILT_IN, build, is_embedded, is_name, resolve
from conformance.errors import AdapterError, UsageError

SMALL = Path(__file__).with_name("small_layer.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; what a test imports from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith((str(tmp_path), str(SMALL))):
            del sys.modules[name]


def test_a_module_in_the_current_folder_is_found(folder: Path) -> None:
    (folder / "own_cache.py").write_text(
        "class Made:\n    declaration = 1\n\ndef make():\n    return Made()\n"
    )
    assert type(resolve("own_cache:make")).__name__ == "Made"
    assert type(resolve("own_cache:Made")).__name__ == "Made", "a class is a factory"


def test_a_local_module_goes_before_an_installed_one_of_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (folder / "colorsys.py").write_text("def make(): return 'mine'\n")
    assert resolve("colorsys:make") == "mine"


def test_a_module_in_a_package_and_a_dotted_factory(folder: Path) -> None:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "mod.py").write_text("class A:\n    @staticmethod\n    def make(): return 'it'\n")
    assert resolve("pkg.mod:A.make") == "it"


def test_a_file_is_found_with_its_neighbours(folder: Path) -> None:
    below = folder / "below"
    below.mkdir()
    (below / "neighbour_of_it.py").write_text("ANSWER = 'near'\n")
    (below / "with_neighbour.py").write_text(
        "import neighbour_of_it\ndef make(): return neighbour_of_it.ANSWER\n"
    )
    assert resolve("below/with_neighbour.py:make") == "near"
    assert resolve(f"{below / 'with_neighbour.py'}:make") == "near"


def test_a_file_named_like_an_installed_module_does_not_replace_it(folder: Path) -> None:
    (folder / "json.py").write_text("def make(): return 'mine'\n")
    import json  # noqa: PLC0415

    assert resolve("./json.py:make") == "mine"
    assert sys.modules["json"] is json


def test_a_folder_named_golden_takes_nothing_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("golden", "reference_impl"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('a stranger')\n")
    (folder / "plain_module.py").write_text("def make(): return 1\n")
    resolve("plain_module:make")
    import golden  # noqa: PLC0415

    assert Path(str(golden.__file__)).parent != folder / "golden"


def test_an_object_in_place_of_a_factory_is_taken_as_it_is(folder: Path) -> None:
    (folder / "objects.py").write_text(
        "class A:\n    declaration = 1\n    def __call__(self): raise OSError\nit = A()\n"
    )
    assert type(resolve("objects:it")).__name__ == "A"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import not_installed_at_all", "No module named 'not_installed_at_all'"),
        ("1 +", "SyntaxError"),
        ("import warnings; warnings.warn('w'); raise ValueError('deep')", "ValueError: deep"),
    ],
)
def test_a_module_that_breaks_is_an_adapter_error_with_its_place(
    folder: Path, source: str, told: str
) -> None:
    (folder / "breaks_now.py").write_text(f"# first line\n{source}\n")
    for name in ("breaks_now:make", "breaks_now.py:make"):
        with pytest.raises(AdapterError) as caught:
            resolve(name)
        assert told in str(caught.value)
        assert "breaks_now" in str(caught.value)
    if "SyntaxError" not in told:
        assert "breaks_now.py, line 2" in str(caught.value)
        assert any("line 2" in note for note in caught.value.__notes__), "the traceback is kept"


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        ("factory_exits", "SystemExit: no such device"),
        ("factory_interrupts", "KeyboardInterrupt"),
        ("factory_raises", "RuntimeError: no such device"),
    ],
)
def test_a_factory_that_raises_is_an_adapter_error(folder: Path, factory: str, told: str) -> None:
    with pytest.raises(AdapterError, match=told):
        resolve(f"{SMALL}:{factory}")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_module_here:make", "there is no module 'no_such_module_here'"),
        ("conformance.nowhere:make", "there is no module 'conformance.nowhere'"),
        ("nowhere/at_all.py:make", "there is no file"),
        (f"{SMALL}:WrongShap", "did you mean WrongShape"),
        (f"{SMALL}:NUMBER", "is neither an adapter"),
        ("onw_cache:make", "did you mean own_cache"),
    ],
)
def test_what_is_not_there_is_said_with_near_names(folder: Path, name: str, told: str) -> None:
    (folder / "own_cache.py").write_text("")
    with pytest.raises(AdapterError, match=told):
        resolve(name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nunpy", "did you mean numpy"),
        ("own_cache", "own_cache:factory"),
        ("own_cache.py", "own_cache.py:factory"),
        ("", "built-in names are"),
        (":make", "is missing"),
        ("own_cache:", "is missing"),
    ],
)
def test_a_name_of_no_known_form_is_wrong_usage(folder: Path, name: str, told: str) -> None:
    (folder / "own_cache.py").write_text("")
    with pytest.raises(UsageError, match=told):
        resolve(name)


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "conformance.adapters.onnx", raising=False)
    with pytest.raises(AdapterError, match=r"pip install 'kv-conformance\[onnx\]'"):
        resolve("onnx")


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(AdapterError, match="no program"):
        resolve("cmd:")


def test_every_built_in_factory_is_there() -> None:
    import importlib.util  # noqa: PLC0415

    for target in BUILT_IN.values():
        assert importlib.util.find_spec(target.partition(":")[0]) is not None, target


@pytest.mark.parametrize("name", ["numpy", "numpy-chunks", "numpy-attention", "isolated:numpy"])
def test_only_the_numpy_layer_is_held_to_strict_by_default(name: str) -> None:
    assert is_embedded(name)
    others = ("onnx", "numpy-store", "exact", "numpy:make", "cmd:numpy", "")
    assert not any(is_embedded(other) for other in others)


def test_what_can_be_named_again() -> None:
    assert all(is_name(name) for name in ("numpy", "pkg.mod:make", "cmd:./driver", "a/b.py:make"))
    assert not any(is_name(name) for name in ("small", "tests.x:f.<locals>.g", "__main__:make"))


def test_build_takes_an_adapter_a_class_and_a_function() -> None:
    class Made:
        declaration = 1

    assert type(build(Made, "it")) is Made
    assert type(build(Made(), "it")) is Made
    with pytest.raises(AdapterError, match="it: 3 is neither"):
        build(3, "it")
