"""Which trace is meant: a file, a golden name, or a trace id."""

from __future__ import annotations

import difflib
from pathlib import Path

from conformance.adapter import Declaration
from conformance.errors import UsageError
from conformance.golden_bounds import bounded
from conformance.suite import traces
from conformance.trace.model import Trace
from conformance.trace.yaml import load


def find(name: str, declaration: Declaration, *, seed: int = 0) -> list[Trace]:
    """The traces of that name for a declaration, with bounds.

    name: a trace file, the id of a trace in the suite, or the part of ids before the slash (a golden file
    with all its schedules). seed: from which a twin is drawn. Raises UsageError where nothing of that name
    can be played, TraceError for a damaged file.
    """
    if name.endswith((".yaml", ".yml")) or Path(name).is_file():
        found = [bounded(trace, declaration) for trace in load(Path(name), file=name).traces()]
        return _playable(name, found, declaration)
    suite = list(traces(declaration, seed=seed))
    golden = [t for t in suite if t.id.startswith(f"{name}/") and t.seed is None]
    chosen = [t for t in suite if t.id == name] or golden
    if chosen:
        return chosen
    ids = list(dict.fromkeys([*(t.id for t in suite), *(t.id.partition("/")[0] for t in suite)]))
    near = difflib.get_close_matches(name, ids, n=4, cutoff=0.5)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise UsageError(
        f"no trace {name!r} is played for {declaration.name!r} (level {declaration.levels[0]}, features "
        f"{', '.join(sorted(declaration.features)) or 'none'}){hint}; name a file by its path"
    )


def _playable(name: str, found: list[Trace], declaration: Declaration) -> list[Trace]:
    """Those of the level that need no more than is declared. Raises UsageError where none is left."""
    fitting = [t for t in found if t.level in declaration.levels]
    if not fitting:
        levels = ", ".join(sorted({t.level for t in found}))
        raise UsageError(
            f"{name} is for level {levels}; {declaration.name!r} declares {declaration.levels[0]}"
        )
    playable = [t for t in fitting if t.needs <= declaration.features]
    if not playable:
        missing = ", ".join(sorted(fitting[0].needs - declaration.features))
        raise UsageError(f"{name} needs {missing}, which {declaration.name!r} does not declare")
    return playable
