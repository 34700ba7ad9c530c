"""The root of a trace file: every key, in the order in which the others need them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from conformance.adapter import FEATURES, LEVELS
from conformance.trace.exact_numbers import Rows
from conformance.trace.model import Trace
from conformance.trace.yaml_arrays import read_array
from conformance.trace.yaml_configs import read_caches, read_layers
from conformance.trace.yaml_cursor import NAME, Cursor
from conformance.trace.yaml_document import Document
from conformance.trace.yaml_needs import needed_features, used_parts
from conformance.trace.yaml_sequences import read_sequence
from conformance.trace.yaml_steps import Scope, read_schedule
from conformance.trace.yaml_tree import Parsed, short

FORMAT = "kv-conformance-trace/1"
ID = r"[a-z0-9]+(?:-[a-z0-9]+)*"
DTYPES = ("float64", "float32", "float16", "bfloat16")
"""The dtypes that a trace may be played in."""

REQUIRED = ("format", "id", "level", "about", "layers", "caches", "schedules")
OPTIONAL = (
    "source", "inputs", "sequences", "bound", "kappa", "needs", "dtype", "optional", "seed", "provenance",
    "published",
)


def read_document(parsed: Parsed) -> Document:
    """The document of a parsed file. Raises TraceError with file, line and path for the first thing wrong."""
    root = Cursor(parsed, parsed.tree)
    if isinstance(parsed.tree, dict) and "format" not in parsed.tree:
        raise root.error(f"the key 'format' is missing; a trace begins with 'format: {FORMAT}'")
    given = root.fields(REQUIRED, OPTIONAL)
    given["format"].choice((FORMAT,))
    name = _read_id(given["id"], parsed.file)
    about = given["about"].match(r"[^\n]{1,2000}", "one sentence or two, on one line")[0]
    sources = given["source"].entries() if "source" in given else {}
    for key in ("provenance", "published"):
        if key in given and not isinstance(given[key].value, dict):
            raise given[key].error("it must be a mapping")
    scope = _read_scope(given)
    stated = [kappa[0] for sequence in scope.sequences.values() for kappa in sequence.kappa.values()]
    kappa = _positive(given, "kappa") or max(stated, default=None)
    shared = {
        "about": about,
        "kappa": kappa,
        "dtype": given["dtype"].choice(DTYPES) if "dtype" in given else "float64",
        "optional": given["optional"].truth() if "optional" in given else False,
        "seed": given["seed"].integer() if "seed" in given else None,
    }
    return Document(
        id=name,
        level=scope.level,
        about=about,
        source={key: entry.text() for key, entry in sources.items()},
        inputs=scope.inputs,
        layers=scope.layers,
        caches=scope.caches,
        sequences=scope.sequences,
        bound=scope.bound,
        kappa=kappa,
        tree=parsed.tree,  # type: ignore[arg-type]
        file=parsed.file,
        _traces=_read_traces(given, scope, name, shared),
    )


def _read_id(cursor: Cursor, file: str) -> str:
    name = cursor.match(ID, "lower-case words with hyphens between them")[0]
    found = re.search(r"([^/\\]*)\.ya?ml$", file)
    if found and found[1] != name:
        raise cursor.error(f"the id is {name!r} and the file is {found[1]!r}; they must be equal")
    return name


def _read_scope(given: Mapping[str, Cursor]) -> Scope:
    """Everything that steps may name."""
    level, numbers = given["level"].choice(LEVELS), Rows()
    inputs: dict[str, NDArray[Any]] = {}
    for key, entry in (given["inputs"].entries(NAME) if "inputs" in given else {}).items():
        inputs[key] = read_array(entry, numbers.exact, dtypes=("float64", "int64"))
    layers, configs = read_layers(given["layers"], level, numbers)
    sequences = {
        key: read_sequence(entry, level, inputs=inputs, configs=configs, numbers=numbers)
        for key, entry in (given["sequences"].entries(NAME) if "sequences" in given else {}).items()
    }
    caches = read_caches(given["caches"], configs)
    return Scope(level, inputs, layers, configs, caches, sequences, _positive(given, "bound"), numbers)


def _positive(given: Mapping[str, Cursor], key: str) -> float | None:
    if key not in given:
        return None
    number = given[key].setting()
    if number <= 0:
        raise given[key].error("it must be positive")
    return number


def _read_traces(
    given: Mapping[str, Cursor], scope: Scope, name: str, shared: Mapping[str, Any]
) -> tuple[Trace, ...]:
    entries = given["schedules"].entries(ID)
    if not entries:
        raise given["schedules"].error("no schedule; a trace has at least one")
    traces = []
    for key, entry in entries.items():
        steps = read_schedule(entry, scope)
        # A file that states its needs is one recorded trace: even a cache that no step names may matter.
        layers, caches = scope.layers, scope.caches
        if "needs" in given:
            found = _read_needs(given["needs"])
        else:
            layers, caches = used_parts(steps, layers, caches)
            found = needed_features(steps, layers, scope.configs)
        traces.append(
            Trace(
                id=f"{name}/{key}", level=scope.level, layers=layers, caches=caches, steps=steps, needs=found,
                file=entry.parsed.file, line=entry.parsed.line(entry.path), **shared,
            )
        )
    return tuple(traces)


def _read_needs(cursor: Cursor) -> frozenset[str]:
    needs = cursor.words()
    for word in needs:
        if word not in FEATURES:
            raise cursor.error(f"{short(word)} is no feature; the features are {', '.join(FEATURES)}")
    return frozenset(needs)
