"""A scenario of a decoder inside a script: its models, sessions and labels under names of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.search.decoder_script import DecoderScript
from conformance.trace.expect import Close, Expectation, Length, Same, Shapes, Unchanged
from conformance.trace.model import Operation, Source, Trace


def embed(script: DecoderScript, scene: Trace) -> None:
    """Build what the scenario begins with, and play it."""
    mark = f"scene {len(script.steps)}"
    for name, source in scene.layers.items():
        if isinstance(source, Source):
            script.layers[f"{mark} {name}"] = source
    for name, spec in scene.caches.items():
        size: dict[str, Any] = {"batch_size": spec.batch_size, "capacity": spec.capacity}
        script.steps.append(
            Operation(
                op="build", target=f"{mark} {name}", layer=f"{mark} {spec.layer}", arguments=size, watch=(),
                label=f"{mark} {name}",
            )
        )  # fmt: skip
    script.steps += [_moved(step, mark) for step in scene.steps]


def _moved(step: Operation, mark: str) -> Operation:
    return replace(
        step,
        target=f"{mark} {step.target}",
        label=f"{mark} {step.label}" if step.label else "",
        watch=None if step.watch is None else tuple(f"{mark} {name}" for name in step.watch),
        expect=tuple(_told(e, mark) for e in step.expect),
    )


def _told(e: Expectation, mark: str) -> Expectation:
    if isinstance(e, Unchanged):
        return replace(e, cache=f"{mark} {e.cache}")
    if isinstance(e, Length):
        return replace(e, cache=f"{mark} {e.cache}")
    if isinstance(e, Same):
        return replace(e, field=_field(e.field, mark), other=f"{mark} {e.other}")
    if isinstance(e, Close):
        return replace(e, field=_field(e.field, mark))
    if isinstance(e, Shapes):
        return replace(e, shapes={_field(name, mark): shape for name, shape in e.shapes.items()})
    return e


def _field(text: str, mark: str) -> str:
    """`keys:main/0=keys:twin/0` with both sessions marked; `output` as it is."""
    parts = (part.partition(":") for part in text.split("="))
    return "=".join(f"{what}:{mark} {cache}" if cache else what for what, _, cache in parts)
