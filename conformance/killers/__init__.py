"""Deliberately faulty implementations: proof that the kit sees, and the memory behind "looks like"."""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.killers.model import Killer

FAMILIES = (
    "positions", "rotation", "scores", "masks", "heads", "weights", "storage", "layout", "lifecycle",
    "isolation", "binding", "refusals", "non_finite", "construction", "chunks", "edits", "evidence",
    "aftermath", "showing", "learnt", "attention", "paged", "store_faults", "planted", "planted_late",
    "planted_stores", "decoder_positions",
    "decoder_layers", "decoder_blocks", "decoder_life", "decoder_refusals", "decoder_forge", "edges",
)  # fmt: skip
"""The modules that register killers, in the order in which they are listed."""


@cache
def killers() -> tuple[Killer, ...]:
    """Every killer of the kit, in a fixed order."""
    from conformance.killers.groups import groups  # noqa: PLC0415 - the face of the package stays light
    from conformance.killers.model import registered  # noqa: PLC0415

    for family in FAMILIES:
        importlib.import_module(f"conformance.killers.{family}")
    known = groups()
    return tuple(
        replace(killer, equal_to=tuple(m for m in known[killer.id].members if m != killer.id))
        if killer.id in known
        else killer
        for killer in registered()
    )
