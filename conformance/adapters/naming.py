"""From an adapter's name, as it is written on a command line, to an adapter object."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from conformance.adapter import Declaration
from conformance.errors import AdapterError, ConformanceError, UsageError

BUILT_IN: Mapping[str, str] = {
    "numpy": "conformance.adapters.numpy_layer:numpy",
    "numpy-chunks": "conformance.adapters.numpy_layer:numpy_chunks",
    "numpy-attention": "conformance.adapters.numpy_layer:numpy_attention",
    "numpy-paged": "conformance.adapters.numpy_paged:numpy_paged",
    "numpy-decoder": "conformance.adapters.numpy_decoder:numpy_decoder",
    "numpy-store": "conformance.adapters.numpy_store:numpy_store",
    "forge-store": "conformance.adapters.numpy_store:forge_store",
    "forge": "conformance.adapters.forge_decoder:forge",
    "forge-float64": "conformance.adapters.forge_decoder:forge_float64",
    "exact": "conformance.adapters.exact:exact",
    "exact-decoder": "conformance.adapters.exact_decoder:exact_decoder",
    "onnx": "conformance.adapters.onnx:onnx_attention",
    "torch-attention": "conformance.adapters.torch_attention:torch_attention",
    "torch-attention-float32": "conformance.adapters.torch_attention:torch_attention_float32",
    "transformers-dynamic": "conformance.adapters.transformers_store:transformers_dynamic",
    "transformers-static": "conformance.adapters.transformers_store:transformers_static",
}
"""Where the factory of each built-in name lives."""

ISOLATED = "isolated:"
"""Before a name: the Python adapter behind it runs in a process of its own, as with --isolate."""

_NOT_FOREIGN = (str(Path(__file__).parents[1]), "<frozen importlib")
"""Where the frames of a traceback come from that tell a user nothing."""

FORMS = "pkg.mod:factory, path/to/file.py:factory, cmd:./driver, or a built-in name"


def is_embedded(name: str) -> bool:
    """True for the NumPy layer, which is held to `strict` without being asked."""
    return BUILT_IN.get(name.removeprefix(ISOLATED), "").startswith("conformance.adapters.numpy_layer:")


def embedded_names() -> tuple[str, ...]:
    """The built-in NumPy implementations: those that need nothing but this distribution and are fast."""
    return tuple(name for name, home in BUILT_IN.items() if home.startswith("conformance.adapters.numpy"))


def is_name(name: str) -> bool:
    """True where `name` is something that `resolve` could be asked for."""
    return name.removeprefix(ISOLATED) in BUILT_IN or (
        ":" in name and "<" not in name and not name.startswith("__main__:")
    )


def resolve(name: str) -> Any:
    """The adapter of that name.

    `pkg.mod:factory` (the current folder is searched first, as under pytest), `path/to/file.py:factory`,
    a built-in name, or `cmd:` and a program with its arguments; `isolated:` before one of the first three
    serves it from a process of its own. A factory is called without arguments; an adapter object that
    stands in its place is taken as it is.

    Raises UsageError for a name of no known form, AdapterError where the module, the factory or the program
    is not there or raises, whatever it raises; only a user's own Ctrl-C passes through.
    """
    if name.startswith("cmd:"):
        from conformance.wire import WireAdapter  # noqa: PLC0415 - only for programs

        return WireAdapter(name.removeprefix("cmd:").strip())
    plain = name.removeprefix(ISOLATED)
    if plain not in BUILT_IN and ":" not in plain:
        raise UsageError(_unknown(plain))
    if plain != name:
        from conformance.wire import isolated  # noqa: PLC0415 - only for processes

        return isolated(plain)
    return build(_factory(name), name)


def build(factory: Any, name: str) -> Any:
    """What the factory makes; an adapter object is returned as it is. Raises AdapterError."""
    if hasattr(factory, "declaration") and not isinstance(factory, type):
        return factory
    if not callable(factory):
        raise AdapterError(
            f"{name}: {factory!r:.80} is neither an adapter (it has no attribute 'declaration') nor a "
            f"factory of one; name a function without arguments that returns an adapter"
        )
    return _contained(factory, f"the factory {name} raised", name)


def _factory(name: str) -> Any:
    module_name, _, path = BUILT_IN.get(name, name).rpartition(":")
    if not module_name or not path:
        raise UsageError(f"adapter {name!r}: the module or the factory is missing; write {FORMS}")
    found: Any = _module(module_name, name)
    for part in path.split("."):
        owner = found
        found = getattr(owner, part, None)
        if found is None:
            near = _near(part, _callables(owner))
            raise AdapterError(f"adapter {name}: {module_name} has no {path!r}{near}")
    return found


def _module(module_name: str, name: str) -> ModuleType:
    if module_name.endswith(".py"):
        return _file(Path(module_name), name)
    if name not in BUILT_IN:
        _make_importable(Path.cwd())
    try:
        module: ModuleType = _contained(
            lambda: importlib.import_module(module_name), f"importing {module_name} raised", name
        )
    except AdapterError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and f"{module_name}.".startswith(f"{missing.name}."):
            near = _near(module_name, [path.stem for path in Path.cwd().glob("*.py")])
            raise AdapterError(
                f"adapter {name}: there is no module {missing.name!r} in {Path.cwd()} nor among the "
                f"installed packages{near}"
            ) from missing
        raise
    return module


def _file(path: Path, name: str) -> ModuleType:
    if not path.is_file():
        near = _near(path.name, [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else [])
        raise AdapterError(f"adapter {name}: there is no file {path} (looked in {Path.cwd()}){near}")
    _make_importable(path.parent.resolve())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise AdapterError(f"adapter {name}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader
    earlier = sys.modules.get(path.stem)
    if earlier is not None and getattr(earlier, "__file__", None) == str(path.resolve()):
        return earlier
    if earlier is None:
        sys.modules[path.stem] = module
    try:
        _contained(lambda: loader.exec_module(module), f"running {path} raised", name)
    except AdapterError:
        if earlier is None:
            del sys.modules[path.stem]
        raise
    return module


def _contained(work: Callable[[], Any], what: str, name: str) -> Any:
    """The value of `work()`. Whatever it raises becomes an AdapterError, with its traceback as a note."""
    from conformance.player.contain import call, interruptible  # noqa: PLC0415 - brings numpy
    from conformance.player.records import Errored, RefusedCall  # noqa: PLC0415

    raised: list[BaseException] = []

    def watched() -> Any:
        try:
            return work()
        except BaseException as error:
            raised.append(error)
            raise

    with interruptible():
        outcome = call(Declaration(name=name), watched)
    if not isinstance(outcome, Errored | RefusedCall):
        return outcome
    cause = raised[0]
    if isinstance(cause, ConformanceError):
        raise AdapterError(f"adapter {name}: {what} an error: {cause}") from cause
    text = outcome.message if isinstance(outcome, Errored) else f"Rejected: {outcome.message}"
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if not f.filename.startswith(_NOT_FOREIGN)]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    error = AdapterError(f"adapter {name}: {what} {text}{place}")
    if frames:
        error.add_note("".join(traceback.format_list(frames)) + text)
    raise error from cause


def _make_importable(folder: Path) -> None:
    """Put a folder first on the module path: a user's own module goes before an installed one of its name.

    Our own packages are loaded before, so that a folder named `golden` cannot take their place.
    """
    importlib.import_module("golden")
    importlib.import_module("reference_impl")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _unknown(name: str) -> str:
    text = f"there is no built-in adapter {name!r}{_near(name, list(BUILT_IN))}"
    stem = name.removesuffix(".py").replace("/", ".").replace("\\", ".")
    if Path(name).is_file() or _has_module_file(stem):
        return f"{text}; the module is here: say which factory in it, as in {name}:factory"
    return f"{text}; the built-in names are {', '.join(BUILT_IN)}; otherwise write {FORMS}"


def _has_module_file(stem: str) -> bool:
    return Path(*stem.split(".")).with_suffix(".py").is_file() if stem.strip(".") else False


def _callables(owner: Any) -> list[str]:
    return (
        [
            key
            for key, value in vars(owner).items()
            if not key.startswith("_") and (callable(value) or hasattr(value, "declaration"))
        ]
        if hasattr(owner, "__dict__")
        else []
    )


def _near(wanted: str, known: list[str]) -> str:
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    return f"; did you mean {', '.join(near)}?" if near else ""
