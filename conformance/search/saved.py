"""A counterexample as a trace file that replays anywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from conformance.errors import ConformanceError
from conformance.search.run import Outcome
from conformance.trace.yaml import dump, from_trace


def save(outcome: Outcome, adapter: str, folder: Path) -> Path:
    """Write what a search found as `counterexample-SEED.yaml`; returns the file.

    Raises ConformanceError where there is nothing to write or the folder cannot be written.
    """
    if outcome.found is None:
        raise ConformanceError("nothing was found, so there is nothing to save")
    name = f"counterexample-{outcome.seed}"
    trace = replace(
        outcome.found.trace,
        id=f"{name}/found",
        about=f"found by search, seed {outcome.seed}, against {adapter}",
        seed=outcome.seed,
    )
    text = dump(from_trace(trace, source={"search": f"seed {outcome.seed}", "against": adapter}))
    target = folder / f"{name}.yaml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConformanceError(f"the counterexample cannot be written to {target}: {error}") from error
    return target
