"""Correct implementations that differ in legitimate ways: none of them may be flagged."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.killers.controls.model import Control

FAMILIES = ("plain", "sums", "softmax", "fused", "stores", "precisions", "attention", "other_levels")


@cache
def controls() -> tuple[Control, ...]:
    """Every control of the kit, in a fixed order."""
    from conformance.killers.controls.model import registered  # noqa: PLC0415 - see the killers

    for family in FAMILIES:
        importlib.import_module(f"conformance.killers.controls.{family}")
    return registered()
