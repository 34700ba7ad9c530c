"""What clean stages and blocks have computed, remembered for every killer that leaves them as they are.

The stages of the open layer and the blocks of the open decoder are functions of what goes into them: weights,
rows, position, retained rows. The traces feed every killer the same numbers, so most of it has been computed
before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.killers.open_decoder_state import Call
from conformance.killers.open_layer import STAGES
from conformance.killers.open_state import Array, Work

Stages = tuple[str, ...]
Key = tuple[Any, ...]
_Memory = dict[Key, dict[str, Array]]

PROJECTED = STAGES[: STAGES.index("scores")]
"""The stages of the new rows alone."""

ATTENDED = STAGES[STAGES.index("scores") :]
"""The stages that read the retained rows too."""

OF_ALL = frozenset({"fill", "check_finite", "finite_stages"})
OF_PROJECTED = OF_ALL | {
    "project", "split", "query", "key", "value", "positions", "query_positions", "key_positions",
    "frequencies", "turn", "pairing", "rotate", "rotated_query", "rotated_key",
}  # fmt: skip
OF_ATTENDED = OF_ALL | {
    "retained_keys", "retained_values", "all_keys", "all_values", "grouped", "grouped_keys",
    "grouped_values", "scale", "scores", "visible", "masked", "exponentials", "weights", "heads", "merged",
    "output",
}  # fmt: skip
"""The methods that each part is made of."""


class RememberedStages:
    """What the stages of one clean class have computed."""

    def __init__(self) -> None:
        self._kept: _Memory = {}

    def learn(self, adapter: Any) -> None:
        """Remember from now on what this adapter, which is the clean class, computes."""

        def fill(work: Work, _: Stages) -> None:
            for stages, _hooks, key in _PARTS:
                entry = key(work)
                type(adapter).fill(adapter, work, stages)
                self._kept[entry] = _copies(work, stages)

        adapter.fill = fill

    def attach(self, adapter: Any, changed: frozenset[str]) -> None:
        """Let an adapter take from here what it computes as the clean class does."""
        own: _Memory = {}

        def fill(work: Work, _: Stages) -> None:
            for stages, hooks, key in _PARTS:
                if not hooks.isdisjoint(changed):
                    type(adapter).fill(adapter, work, stages)
                    continue
                entry = key(work)
                kept = self._kept.get(entry) or own.get(entry)
                if kept is None:
                    type(adapter).fill(adapter, work, stages)
                    own[entry] = _copies(work, stages)
                else:
                    work.stages.update((name, stage.copy()) for name, stage in kept.items())

        if any(hooks.isdisjoint(changed) for _, hooks, _ in _PARTS):
            adapter.fill = fill


def _copies(work: Work, stages: Stages) -> dict[str, Array]:
    return {name: work.stages[name].copy() for name in stages}


OF_BLOCKS = frozenset(
    {
        "block", "norm", "epsilon", "project", "feed_forward", "activation", "attention", "heads", "rotates",
        "pairing", "rotate", "positions", "retained", "grouped", "visible", "largest",
    }
)  # fmt: skip


class RememberedBlocks:
    """What the blocks of the clean decoder have computed: rows, and the candidates of their layer."""

    def __init__(self) -> None:
        self._kept: dict[Key, tuple[Array, Array, Array]] = {}

    def learn(self, adapter: Any) -> None:
        """Remember from now on what this adapter, which is the clean class, computes."""

        def block(call: Call, number: int, rows: Array) -> Array:
            entry = _block(call, number, rows)
            made: Array = type(adapter).block(adapter, call, number, rows)
            key, value = call.candidates[-1]
            self._kept[entry] = made.copy(), key.copy(), value.copy()
            return made

        adapter.block = block

    def attach(self, adapter: Any, changed: frozenset[str]) -> None:
        """Let an adapter take from here what it computes as the clean class does."""

        def block(call: Call, number: int, rows: Array) -> Array:
            kept = self._kept.get(_block(call, number, rows))
            if kept is None:
                return type(adapter).block(adapter, call, number, rows)  # type: ignore[no-any-return]
            made, key, value = kept
            call.candidates.append((key.copy(), value.copy()))
            return made.copy()

        if OF_BLOCKS.isdisjoint(changed):
            adapter.block = block


def _block(call: Call, number: int, rows: Array) -> Key:
    own = f"blocks.{number}."
    weights = (node.value for name, node in call.model.nodes.items() if name.startswith(own))
    kept = (getattr(call.session, part)[number][:, :, : call.start] for part in ("keys", "values"))
    return call.model.config, number, call.start, *map(_bits, (rows, *kept, *weights))


def _projected(work: Work) -> Key:
    nodes = work.layer.nodes
    given = (work.rows, *(nodes[name].value for name in ("query", "key", "value")))
    return "projected", work.layer.config, work.start, *map(_bits, given)


def _attended(work: Work) -> Key:
    kept = work.cache.keys[:, :, : work.start], work.cache.values[:, :, : work.start]
    made = (work.stages[name] for name in ("rotated_query", "rotated_key", "value"))
    output = work.layer.nodes.get("output")
    weights = () if output is None else (output.value,)
    return "attended", work.layer.config, work.start, *map(_bits, (*kept, *made, *weights))


def _bits(array: Array) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.tobytes()


_PARTS: tuple[tuple[Stages, frozenset[str], Callable[[Work], Key]], ...] = (
    (PROJECTED, OF_PROJECTED, _projected),
    (ATTENDED, OF_ATTENDED, _attended),
)
