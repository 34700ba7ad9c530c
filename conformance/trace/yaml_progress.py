"""What each cache holds while a schedule is read: a step cannot expect what its past does not give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from conformance.trace.model import CacheSpec
from conformance.trace.yaml_cursor import Cursor
from conformance.trace.yaml_sequences import Sequence

CALLS = ("append", "prefill", "decode")


@dataclass(frozen=True)
class Held:
    """The rows of one cache: the first `rows` of a sequence; `sequence` None where they are others."""

    sequence: str | None = None
    rows: int | None = 0


@dataclass
class Progress:
    """The caches that stand and what each holds; a store holds rows by layer: `main/0`, `main/1`."""

    specs: Mapping[str, CacheSpec]
    caches: dict[str, CacheSpec] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.caches.update(self.specs)

    def carry_out(
        self,
        cursor: Cursor,
        op: str,
        target: str,
        *,
        layer: str | None,
        part: tuple[Sequence, int, int] | None,
        inputs: Mapping[str, NDArray[Any]],
        arguments: Mapping[str, Any],
    ) -> None:
        """Note an accepted step. Raises TraceError where rows of a sequence do not continue the cache."""
        if part is not None:
            self._require_fitting(cursor, op, target, layer, part)
        if op in CALLS:
            self.held[target] = Held(part[0].name, part[2]) if part else Held(None, None if inputs else 0)
        elif op == "reset":
            self.held.update(dict.fromkeys(self._inside(target), Held()))
        elif op == "truncate":
            for name in self._inside(target):
                self._truncate(name, arguments.get("length"))
        elif op == "build":
            self._build(cursor, target, layer, arguments)
        elif op in ("fork", "twin") and isinstance(arguments.get("name"), str):
            self.caches[arguments["name"]] = self.caches[target]
            for name in self._inside(target):
                self.held[arguments["name"] + name.removeprefix(target)] = self.held.get(name, Held())
        elif op in ("reorder", "overwrite_row", "fill"):
            self.held.update(dict.fromkeys(self._inside(target), Held(None, None)))

    def _inside(self, target: str) -> list[str]:
        """A cache and the layers of it that hold something."""
        return [target, *(name for name in self.held if name.startswith(f"{target}/"))]

    def _build(self, cursor: Cursor, target: str, layer: str | None, arguments: Mapping[str, Any]) -> None:
        if layer is None:
            raise cursor.error("the key 'layer' is missing: what the cache is built for")
        for name in ("batch_size", "capacity"):
            if name not in arguments:
                raise cursor.error(f"the key {name!r} is missing")
        self.caches[target] = CacheSpec(layer, arguments["batch_size"], arguments["capacity"])
        self.held.pop(target, None)

    def _truncate(self, target: str, length: Any) -> None:
        held = self.held.get(target, Held())
        if isinstance(length, int) and held.rows is not None and 0 <= length <= held.rows:
            self.held[target] = replace(held, rows=length)
        else:
            self.held[target] = Held(None, None)

    def _require_fitting(
        self, cursor: Cursor, op: str, target: str, layer: str | None, part: tuple[Sequence, int, int]
    ) -> None:
        sequence, start, stop = part
        what = f"{sequence.name}[{start}:{stop}]"
        if op == "full_prefix":
            if start or layer != sequence.layer:
                raise cursor.error(f"{what} is no prefix of a sequence on layer {layer!r}")
            return
        spec, held = self.caches[target.partition("/")[0]], self.held.get(target, Held())
        on = layer or spec.layer
        if on != sequence.layer:
            raise cursor.error(f"{what} is exact on layer {sequence.layer!r}, but this step works on {on!r}")
        if spec.batch_size != sequence.batch_size:
            raise cursor.error(f"{what} has {sequence.batch_size} lanes, the cache {spec.batch_size}")
        if spec.capacity is not None and stop > spec.capacity:
            raise cursor.error(f"{what} is beyond the capacity {spec.capacity}; a refused step says rejected")
        if held.rows != start or (start and held.sequence != sequence.name):
            rows = f"{held.sequence}[0:{held.rows}]" if held.sequence and held.rows else "other rows"
            rows = "nothing" if held.rows == 0 else rows
            raise cursor.error(f"{what} does not continue the cache, which holds {rows}")
