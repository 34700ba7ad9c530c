"""More caches, and edits of what they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from conformance.scenarios.storage import unchanged
from conformance.search.script import MOST_CACHES, Script
from conformance.trace.expect import Refused, Same


@dataclass(frozen=True)
class Another:
    """One more cache of the same layer."""

    def write(self, script: Script) -> None:
        """Up to a handful."""
        if len(script.lives) >= MOST_CACHES:
            return
        name = f"c{len(script.lives)}"
        script.lives[name] = script.fresh()
        script.build(name, script.length("STORE-LENGTH", name))


@dataclass(frozen=True)
class Truncate:
    """To a length that may or may not be there."""

    cache: int
    length: int

    def write(self, script: Script) -> None:
        """Refused beyond what is held."""
        if "truncate" not in script.declaration.features:
            return
        name = script.name(self.cache)
        life = script.lives[name]
        if not 0 <= self.length <= life.length:
            refusal = Refused("TRUNCATE-REFUSED", ("invalid_length",))
            script.do("truncate", name, refusal, unchanged(name), length=self.length)
            return
        life.history = {key: rows[..., : self.length, :] for key, rows in life.history.items()}
        script.do("truncate", name, script.length("TRUNCATE-LENGTH", name), length=self.length)


@dataclass(frozen=True)
class Fork:
    """A second life with the same past."""

    cache: int

    def write(self, script: Script) -> None:
        """Both go on apart."""
        if "fork" not in script.declaration.features or len(script.lives) >= MOST_CACHES:
            return
        origin, name = script.name(self.cache), f"c{len(script.lives)}"
        life = script.lives[origin]
        script.lives[name] = replace(life, last="")
        fresh = life.last and life.last == f"step {len(script.steps) - 1}"
        same = tuple(Same("FORK-EQUAL", part, life.last) for part in ("keys", "values") if fresh)
        script.do("fork", origin, script.length("FORK-EQUAL", name), *same, name=name)


NO_LANES = (-1, 9)
"""Lanes that no cache has; every other one is taken modulo those that there are."""


@dataclass(frozen=True)
class Reorder:
    """Lanes taken from others."""

    cache: int
    lanes: tuple[int, ...]

    def write(self, script: Script) -> None:
        """Refused where a lane is not there."""
        if "reorder" not in script.declaration.features:
            return
        name, count = script.name(self.cache), script.setting.lanes
        lanes = tuple(lane if lane in NO_LANES else lane % count for lane in self.lanes[:count])
        life = script.lives[name]
        if any(not 0 <= lane < count for lane in lanes):
            refusal = Refused("REORDER-REFUSED", ("lane_out_of_range",))
            script.do("reorder", name, refusal, unchanged(name), lanes=lanes)
            return
        life.history = {key: rows[list(lanes)] for key, rows in life.history.items()}
        moved = tuple(
            Same("REORDER-LANES", part, life.last, lanes=tuple(range(count)), other_lanes=lanes)
            for part in ("keys", "values")
            if life.last and life.last == f"step {len(script.steps) - 1}"
        )
        script.do("reorder", name, script.length("REORDER-LANES", name), *moved, lanes=lanes)
