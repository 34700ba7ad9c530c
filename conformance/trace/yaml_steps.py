"""Schedules in a trace file: lists of steps, each an operation with what must be observed after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.trace.exact_numbers import Rows, handed_number
from conformance.trace.expect import Refused, Unchanged
from conformance.trace.model import OPERATIONS, CacheSpec, Derived, Operation, Source
from conformance.trace.yaml_arrays import DTYPES, read_array
from conformance.trace.yaml_configs import Config, read_capacity, read_fresh, read_rewiring, rewiring_fields
from conformance.trace.yaml_cursor import HANDLE, TITLE, Cursor, listed
from conformance.trace.yaml_expect import read_expectation, read_requirement
from conformance.trace.yaml_plain import read_plain_mapping
from conformance.trace.yaml_progress import Progress
from conformance.trace.yaml_sequences import CALL_INPUTS, Sequence, as_tokens, read_reference, sequence_part
from conformance.trace.yaml_short import Shorthand
from conformance.trace.yaml_tree import short

COMMON = (
    "cache", "layer", "label", "watch", "inputs", "arguments", "requirement", "expect", "expectations",
    "rejected", "unchanged", "accepted", "replays",
)
CALLS = ("append", "full_prefix", "prefill", "decode")
"""Operations that take rows: of an input (`rows`) or of a sequence, which also says what must come out."""
LEVELS = {
    "append": ("layer", "attention", "store"),
    "full_prefix": ("layer", "decoder"),
    **dict.fromkeys(("prefill", "decode", "close", "reopen"), ("decoder",)),
}
"""The levels of the operations that not every level has."""

_NAME: Callable[[Cursor], Any] = lambda cursor: cursor.match(TITLE, "a name")[0]  # noqa: E731
ROW = ("buffer", "lane", "head", "slot", "kv_heads", "capacity")
OPERANDS: Mapping[str, Mapping[str, Callable[[Cursor], Any]]] = {
    "build": {"batch_size": Cursor.integer, "capacity": read_capacity},
    "observe": {"snapshot": Cursor.truth},
    "rewire": {"name": _NAME},
    "poison": {"value": lambda cursor: cursor.read(handed_number)},
    "overwrite_input": {"step": Cursor.text},
    "overwrite_output": {"step": Cursor.text},
    "overwrite_row": dict.fromkeys(ROW, Cursor.integer),
    "twin": {"name": _NAME},
    "fork": {"name": _NAME},
    "truncate": {"length": Cursor.integer},
    "reorder": {"lanes": Cursor.integers},
}
"""The operands that have a key of their own, by operation; any other stands typed under `arguments`."""


@dataclass(frozen=True)
class Scope:
    """What the steps of a file may name."""

    level: str
    inputs: Mapping[str, NDArray[Any]]
    layers: Mapping[str, Source | Derived]
    configs: Mapping[str, Config]
    caches: Mapping[str, CacheSpec]
    sequences: Mapping[str, Sequence]
    bound: float | None
    numbers: Rows


def read_schedule(cursor: Cursor, scope: Scope) -> tuple[Operation, ...]:
    """The steps of one schedule."""
    reader = _Reader(scope, Progress(scope.caches), dict(scope.configs))
    entries = cursor.items()
    if not entries:
        raise cursor.error("no steps; a schedule has at least one")
    steps = [reader.step(entry) for entry in entries]
    return tuple(replace(step, label=label) for step, label in zip(steps, reader.labels, strict=True))


@dataclass
class _Reader:
    """Reads the steps of one schedule in order; `labels` has one for each step read so far, "" for none."""

    scope: Scope
    progress: Progress
    configs: dict[str, Config]
    labels: list[str] = field(default_factory=list)

    def step(self, cursor: Cursor) -> Operation:
        """One step."""
        op = self._operation(cursor)
        calls = ("rows", "sequence") if op in CALLS else ()
        rewires = rewiring_fields(self.scope.level) if op == "rewire" else ()
        given = cursor.fields(("op",), (*COMMON, *OPERANDS.get(op, {}), *calls, *rewires))
        target = self._target(cursor, given, op)
        layer, slot = self._layer(given)
        arguments = self._arguments(given, op, layer)
        if slot is not None:
            arguments["layer"] = slot
        part = sequence_part(given["sequence"], self.scope.sequences) if "sequence" in given else None
        inputs = self._inputs(given, op, part)
        observed = target if slot is None else f"{target}/{slot}"
        short = Shorthand(
            given=given, op=op, level=self.scope.level, target=target, observed=observed,
            sequences=self.scope.sequences, bound=self.scope.bound, numbers=self.scope.numbers,
            override=read_requirement(given["requirement"]) if "requirement" in given else "",
        )
        expected = [*short.read(part, self._replayed(given))]
        kept = tuple(e.cache for e in expected if isinstance(e, Unchanged))
        for name in kept:
            self._known(given.get("unchanged", cursor), name)
        refused = "rejected" in given
        if "expectations" in given:
            expected += [read_expectation(e, self.scope.numbers) for e in given["expectations"].items()]
            refused |= any(isinstance(e, Refused) for e in expected)
        if not refused:
            self.progress.carry_out(
                cursor, op, observed, layer=layer, part=part, inputs=inputs, arguments=arguments
            )
        self._note_label(given)
        return Operation(
            op=op, target=target, layer=layer, inputs=inputs, arguments=arguments, expect=tuple(expected),
            watch=self._watch(given, target, (observed, *kept)),
        )

    def _operation(self, cursor: Cursor) -> str:
        if not isinstance(cursor.value, dict) or "op" not in cursor.value:
            raise cursor.error(f"a step is a mapping with op; operations are {', '.join(OPERATIONS)}")
        entry = Cursor(cursor.parsed, cursor.value["op"], (*cursor.path, "op"))
        op = entry.choice(OPERATIONS)
        if self.scope.level not in LEVELS.get(op, (self.scope.level,)):
            raise entry.error(f"level {self.scope.level} has no {op}")
        return op

    def _target(self, cursor: Cursor, given: Mapping[str, Cursor], op: str) -> str:
        if "cache" not in given:
            if op in ("update", "rewire", "full_prefix", "overwrite_input", "overwrite_output"):
                return ""
            raise cursor.error("the key 'cache' is missing")
        if op == "build":
            return str(_NAME(given["cache"]))
        self._known(given["cache"], given["cache"].text())
        return given["cache"].text()

    def _known(self, cursor: Cursor, cache: str) -> None:
        standing = self.progress.caches
        if cache.partition("/")[0] not in standing and cache not in standing:
            raise cursor.error(f"there is no cache {short(cache)}; there is {listed(standing)}")

    def _layer(self, given: Mapping[str, Cursor]) -> tuple[str | None, int | None]:
        """The layer that a step names, or the number of one inside a store or model."""
        if "layer" not in given:
            return None, None
        entry = given["layer"]
        if self.scope.level in ("store", "decoder") and entry.text().isdecimal():
            return None, entry.integer(0)
        entry.known(self.configs, "layer")
        return entry.text(), None

    def _arguments(self, given: Mapping[str, Cursor], op: str, layer: str | None) -> dict[str, Any]:
        arguments = {name: read(given[name]) for name, read in OPERANDS.get(op, {}).items() if name in given}
        if op == "rewire":
            arguments |= self._rewired(given, layer)
        if "arguments" in given:
            typed = read_plain_mapping(given["arguments"], self.scope.numbers)
            if both := sorted(set(typed) & set(arguments)):
                raise given["arguments"].error(f"{both[0]} stands in the step as well; give it once")
            arguments |= typed
        if op == "rewire" and "name" in arguments and layer is not None:
            self.configs[str(arguments["name"])] = arguments.get("config") or self.configs[layer]
        return arguments

    def _rewired(self, given: Mapping[str, Cursor], layer: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if layer is not None:
            config = read_rewiring(given, self.scope.level, self.configs[layer])
            found = {} if config is None else {"config": config}
        if "fresh" in given:
            found["fresh"] = read_fresh(given["fresh"], self.scope.level)
        return found

    def _inputs(
        self, given: Mapping[str, Cursor], op: str, part: tuple[Sequence, int, int] | None
    ) -> dict[str, NDArray[Any]]:
        if part is not None:
            for name in ("rows", "inputs"):
                if name in given:
                    raise given[name].error("the step appends a sequence; it has no other inputs")
            sequence, start, stop = part
            found = sequence.inputs_part(start, stop)
            return {"tokens": found["tokens"][:, 0]} if op == "decode" and stop - start == 1 else found
        entries = dict(given["inputs"].entries(HANDLE)) if "inputs" in given else {}
        if "rows" in given:
            if "rows" in entries:
                raise given["rows"].error("rows stand under inputs as well; give them once")
            entries["rows"] = given["rows"]
        if op in CALLS:
            self._require_inputs(given, set(entries))
        return {name: self._array(entry, name) for name, entry in entries.items()}

    def _require_inputs(self, given: Mapping[str, Cursor], names: set[str]) -> None:
        wanted = CALL_INPUTS[self.scope.level]
        if names != set(wanted):
            raise given["op"].error(
                f"the step is given {listed(sorted(names))}; it takes {', '.join(wanted)}"
            )

    def _array(self, cursor: Cursor, name: str) -> NDArray[Any]:
        if not isinstance(cursor.value, dict):
            return read_reference(cursor, self.scope.inputs, name, self.scope.level)
        array = read_array(cursor, self.scope.numbers.handed, dtypes=DTYPES)
        return as_tokens(cursor, array) if name == "tokens" and np.isfinite(array).all() else array

    def _replayed(self, given: Mapping[str, Cursor]) -> str:
        """The label of the step that a step replays, given as its label or as its number from 0."""
        if "replays" not in given:
            return ""
        other = given["replays"].text()
        if other and self.labels.count(other) == 1:
            return other
        if not re.fullmatch("[0-9]{1,9}", other) or int(other) >= len(self.labels):
            raise given["replays"].error(f"{short(other)} is not one earlier step; write its label or number")
        self.labels[int(other)] = self.labels[int(other)] or f"step-{other}"
        return self.labels[int(other)]

    def _note_label(self, given: Mapping[str, Cursor]) -> None:
        self.labels.append(given["label"].match("[^\n]{1,200}", "a label")[0] if "label" in given else "")

    def _watch(
        self, given: Mapping[str, Cursor], target: str, judged: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        """The caches to observe: those named, else those that the step is judged by."""
        if "watch" not in given:
            names = tuple(dict.fromkeys(name for name in judged if name))
            return names if names not in ((), (target,)) else None
        watched = given["watch"].titles()
        for name in watched:
            self._known(given["watch"], name)
        return watched
