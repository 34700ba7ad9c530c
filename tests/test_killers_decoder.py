"""Every fault planted in a decoder or a store is caught by the requirement that it violates."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from conformance.adapter import Declaration
from conformance.adapters.forge_decoder import forge_float64
from conformance.check import check
from conformance.contract import all_requirements
from conformance.judge import judge
from conformance.judge.findings import Check
from conformance.killers import killers
from conformance.killers.model import Killer
from conformance.killers.open_store import OpenStoreAdapter
from conformance.player import play
from conformance.suite import traces
from conformance.trace.model import Trace


@cache
def _suite(levels: tuple[str, ...], features: frozenset[str], capacity: Any, rows: Any) -> tuple[Trace, ...]:
    declared = Declaration(
        name="x", levels=levels, features=features, capacity=capacity, rows_per_append=rows
    )
    return tuple(traces(declared))


def suite(declaration: Declaration) -> tuple[Trace, ...]:
    """The traces of a declaration, made once for all killers that declare the same."""
    own = declaration
    return _suite(own.levels, own.features, own.capacity, own.rows_per_append)


def seen(adapter: Any, trace: Trace) -> list[Check]:
    return judge(play(trace, adapter), adapter.declaration)


def test_the_open_store_that_killers_are_planted_in_conforms() -> None:
    assert check(OpenStoreAdapter(), profile="store").verdict.text == "conformant"


KILLERS = [k for k in killers() if k.level in ("decoder", "store")]


@pytest.mark.parametrize("killer", KILLERS, ids=lambda k: k.id)
def test_every_killer_is_caught_by_the_requirement_that_it_violates(killer: Killer) -> None:
    adapter = killer.make()
    played = suite(adapter.declaration)
    # What the judge files of every call stands in no trace by name.
    naming = [t for t in played if killer.violates in t.requirements()] or played
    checks = (c for trace in naming for c in seen(adapter, trace))
    caught = any((c.requirement, c.status) == (killer.violates, "fail") for c in checks)
    assert caught, f"{killer.id} ({killer.says}) is not caught by {killer.violates}"


@pytest.mark.parametrize("level", ["decoder", "store"])
def test_every_testable_requirement_of_the_level_has_a_killer(level: str) -> None:
    asked = {e.id for e in all_requirements() if level in e.levels and not e.untestable}
    assert asked == {k.violates for k in KILLERS if k.level == level}


@pytest.mark.parametrize("violated", sorted({k.violates for k in KILLERS if k.id.startswith("forge_")}))
def test_forge_itself_meets_what_its_killers_violate(violated: str) -> None:
    adapter = forge_float64()
    naming = [t for t in suite(adapter.declaration) if violated in t.requirements()][:12]
    assert not any(c.requirement == violated and c.status == "fail" for t in naming for c in seen(adapter, t))
