"""An adapter that is a program in any language at the end of a pipe."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.errors import AdapterError
from conformance.values import LayerParameters, Observation, Step
from conformance.wire.conversation import Conversation, Limits
from conformance.wire.errors import MessageError
from conformance.wire.lifecycle import Driver, Handle, sort_of
from conformance.wire.lines import LINE_LIMIT
from conformance.wire.messages import fields_of, observation_in, step_in
from conformance.wire.numbers import Mode
from conformance.wire.text import described


class WireAdapter:
    """Every level and feature of `conformance.adapter`, answered by a program that speaks the protocol.

    command: a program and its arguments, as a list or as one text that is split as a shell would (no shell
    runs). The program starts at the first need of it. After a crash, a hang or garbage the call raises
    WireError, whose text says what was asked, what came and how the process stood; the next `build_...`
    starts a fresh process, and what was built in the old one is refused. After three hangs, or a pipe that
    loses bits, the driver is given up and every call says so at once. time_limit: seconds per request.
    numbers: `"bits"` asks for numbers as hex digits; None leaves it to the driver.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        time_limit: float = 10.0,
        start_limit: float = 30.0,
        numbers: Mode | None = None,
        line_limit: int = LINE_LIMIT,
        memory_limit: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = shlex.split(command) if isinstance(command, str) else list(command)
        if not self.command:
            raise AdapterError("cmd: names no program; write cmd:./driver --flag")
        if not (time_limit > 0 and start_limit > 0):
            raise AdapterError(
                f"time limits of {time_limit} and {start_limit} s were given; both must be above 0"
            )
        limits = Limits(
            request=time_limit,
            start=start_limit,
            line=line_limit,
            memory=memory_limit,
            environment=environment or {},
        )
        self._driver = Driver(self.command, limits, numbers)

    def __enter__(self) -> WireAdapter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_process()

    def __repr__(self) -> str:
        return f"WireAdapter({shlex.join(self.command)!r})"

    @property
    def declaration(self) -> Declaration:
        """What the driver's hello declares; starts the driver. Raises WireError."""
        return self._driver.declaration

    @property
    def pid(self) -> int | None:
        """The process id of the running driver, None when none runs."""
        conversation = self._driver.conversation
        return None if conversation is None or conversation.ended is not None else conversation.pid

    @property
    def stderr(self) -> str:
        """The last lines that the latest process wrote on stderr."""
        return "" if self._driver.conversation is None else self._driver.conversation.stderr_tail()

    @property
    def offers(self) -> frozenset[str]:
        """The optional requests that the driver's hello offers; starts the driver. Raises WireError."""
        return self._driver.offers

    def take_exchanges(self) -> list[tuple[bytes, bytes]]:
        """The beginnings of the lines sent and received since the last call, at most eight pairs."""
        taken = list(self._driver.exchanges)
        self._driver.exchanges.clear()
        return taken

    def ask_raw(self, method: str, operands: Mapping[str, Any]) -> Any:
        """The result of any request, as it came. Raises DriverError, WireError, Rejected."""
        return self._driver.ask(method, operands)[1]

    @property
    def notes(self) -> list[str]:
        """What a served Python adapter printed on stdout, the newest last."""
        return self._driver.notes

    def close_process(self) -> str:
        """End the driver; a later call starts a fresh one. Says what was wrong with its leaving, or ""."""
        return "" if self._driver.conversation is None else self._driver.conversation.bye()

    def build_layer(self, config: Any, parameters: LayerParameters) -> Handle:
        """Level layer: a layer with these weights."""
        return self._driver.build("build_layer", "layer", {"config": config, "parameters": parameters})

    def build_cache(self, source: Any, batch_size: int, capacity: int) -> Handle:
        """Levels layer and attention: an empty cache for a layer, or for an `AttentionConfig`."""
        name = "layer" if isinstance(source, Handle) else "config"
        return self._driver.build(
            "build_cache", "cache", {name: source, "batch_size": batch_size, "capacity": capacity}
        )

    def build_paged(
        self,
        layer: Handle,
        batch_size: int,
        capacity: int,
        *,
        block_size: int,
        blocks: int,
        shared_with: Handle | None = None,
    ) -> Handle:
        """Feature paged: an empty cache over a pool of `blocks` blocks, or in the pool of `shared_with`."""
        sizes = {"batch_size": batch_size, "capacity": capacity, "block_size": block_size, "blocks": blocks}
        return self._driver.build(
            "build_paged", "cache", {"layer": layer, **sizes, "shared_with": shared_with}
        )

    def build_store(self, config: Any, batch_size: int, capacity: int | None = None) -> Handle:
        """Level store: an empty store."""
        return self._driver.build(
            "build_store", "store", {"config": config, "batch_size": batch_size, "capacity": capacity}
        )

    def build_model(self, config: Any, parameters: Mapping[str, Any]) -> Handle:
        """Level decoder: a model with these weights."""
        return self._driver.build("build_model", "model", {"config": config, "parameters": dict(parameters)})

    def open(self, model: Handle, batch_size: int, capacity: int) -> Handle:
        """Level decoder: an empty session."""
        return self._driver.build(
            "open", "session", {"model": model, "batch_size": batch_size, "capacity": capacity}
        )

    def append(self, first: Handle, *rest: Any) -> Any:
        """(layer, cache, rows), (cache, query, key, value) -> Step; (store, layer, keys, values) -> pair."""
        names = {"layer": ("layer", "cache", "rows"), "store": ("store", "layer", "keys", "values")}.get(
            sort_of(first), ("cache", "query", "key", "value")
        )
        operands = dict(zip(names, (first, *rest), strict=True))
        if sort_of(first) == "store":
            return self._prefix(*self._driver.ask("append", operands))
        return self._step(*self._driver.ask("append", operands))

    def prefill(self, session: Handle, tokens: NDArray[Any]) -> NDArray[Any]:
        """Level decoder: logits of a prompt."""
        return self._array(
            "logits", *self._driver.ask("prefill", {"session": session, "tokens": np.asarray(tokens)})
        )

    def decode(self, session: Handle, tokens: NDArray[Any]) -> NDArray[Any]:
        """Level decoder: logits of one token per lane."""
        return self._array(
            "logits", *self._driver.ask("decode", {"session": session, "tokens": np.asarray(tokens)})
        )

    def observe(self, cache: Handle, *layer: int) -> Observation:
        """A cache, or one layer of a store or session, as it stands; storage as `StorageToken`s."""
        conversation, result = self._driver.ask(
            "observe", {**_target(cache), **dict(zip(("layer",), layer, strict=False))}
        )
        with conversation.reading():
            return observation_in(result, "result", conversation.numbers)

    def reset(self, cache: Handle) -> None:
        """Forget every row."""
        self._done("reset", cache)

    def close(self, session: Handle) -> None:
        """Level decoder: give a session up."""
        self._done("close", session)

    def reopen(self, session: Handle, model: Handle) -> Handle:
        """Feature rewire of a decoder: the caches of a closed session under a model."""
        return self._driver.build("reopen", "session", {"session": session, "model": model})

    def truncate(self, cache: Handle, length: int) -> None:
        """Feature truncate."""
        self._done("truncate", cache, length=length)

    def fork(self, cache: Handle) -> Handle:
        """Feature fork: another cache with the same rows."""
        return self._driver.build("fork", sort_of(cache), {**_target(cache)})

    def reorder(self, cache: Handle, lanes: Iterable[int]) -> None:
        """Feature reorder."""
        self._done("reorder", cache, lanes=[int(lane) for lane in lanes])

    def full_prefix(self, layer: Handle, rows: NDArray[Any]) -> NDArray[Any]:
        """Feature full_prefix: the driver's own uncached path over rows, or over tokens for a model."""
        given, answer = ("tokens", "logits") if sort_of(layer) == "model" else ("rows", "output")
        return self._array(
            answer, *self._driver.ask("full_prefix", {**_target(layer), given: np.asarray(rows)})
        )

    def update_parameters(self, layer: Handle, parameters: Mapping[str, Any]) -> None:
        """Feature update_parameters."""
        self._done("update_parameters", layer, parameters=dict(parameters))

    def rewire(self, layer: Handle, *, config: Any = None, fresh: Iterable[str] = ()) -> Handle:
        """Feature rewire: a layer that shares every parameter but those in `fresh`."""
        changed = {} if config is None else {"config": config}
        return self._driver.build(
            "rewire", sort_of(layer), {**_target(layer), **changed, "fresh": list(fresh)}
        )

    def poison(self, cache: Handle, value: float) -> None:
        """Feature poison."""
        self._done("poison", cache, value=float(value))

    def snapshot(self, cache: Handle, *layer: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Feature snapshot: (keys, values)."""
        operands = {**_target(cache), **dict(zip(("layer",), layer, strict=False))}
        pair = self._prefix(*self._driver.ask("snapshot", operands))
        if pair is None:
            raise AdapterError("snapshot: the driver answered with null; it must answer with keys and values")
        return pair

    @property
    def overwrite_row(self) -> Callable[[Handle, int, int, NDArray[Any]], bool]:
        """(cache, buffer, index, numbers): write into a physical buffer from element `index` on, behind the
        cache's back; False where this buffer cannot be written. AttributeError where the driver does not
        offer it.
        """
        if "overwrite_row" not in self.offers:
            raise AttributeError(f"the driver {shlex.join(self.command)} does not offer overwrite_row")
        return self._overwrite_row

    def _overwrite_row(self, cache: Handle, buffer: int, index: int, numbers: NDArray[Any]) -> bool:
        operands = {"buffer": int(buffer), "index": int(index), "data": np.asarray(numbers)}
        conversation, result = self._driver.ask("overwrite_row", {**_target(cache), **operands})
        with conversation.reading():
            written = fields_of(result or {}, "result", ("written",)).get("written", True)
            if not isinstance(written, bool):
                raise MessageError("result.written", f"{described(written)} is not true or false")
        return written

    def _done(self, method: str, target: Handle, **operands: Any) -> None:
        conversation, result = self._driver.ask(method, {**_target(target), **operands})
        if result not in (None, {}):
            raise conversation.problem(f"{method} answers with null, {result!r:.80} came")

    def _step(self, conversation: Conversation, result: Any) -> Step:
        with conversation.reading():
            return step_in(result, "result", conversation.numbers)

    def _prefix(self, conversation: Conversation, result: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
        if result is None or result == {}:
            return None
        with conversation.reading():
            pair = fields_of(result, "result", ("keys", "values"), ("keys", "values"))
            keys, values = (conversation.numbers.array_in(pair[n], f"result.{n}") for n in ("keys", "values"))
            return keys, values

    def _array(self, name: str, conversation: Conversation, result: Any) -> NDArray[Any]:
        with conversation.reading():
            return conversation.numbers.array_in(
                fields_of(result, "result", (name,), (name,))[name], f"result.{name}"
            )


def isolated(name: str, **options: Any) -> WireAdapter:
    """The Python adapter `name`, served by a process of its own that sees the same modules as this one."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    environment = {
        "PYTHONPATH": path,
        "PYTHONIOENCODING": "utf-8",
        **(options.pop("environment", None) or {}),
    }
    return WireAdapter(
        [sys.executable, "-m", "conformance.wire", "serve", name], environment=environment, **options
    )


def _target(handle: Any) -> dict[str, Any]:
    return {sort_of(handle): handle}
