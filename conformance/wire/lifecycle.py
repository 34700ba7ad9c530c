"""The life of a driver: started at need, started afresh after a break, given up when it goes on breaking."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.errors import AdapterError
from conformance.wire.conversation import Conversation, Limits
from conformance.wire.errors import GoneError, LossyPipeError, MessageError, WireError
from conformance.wire.messages import fields_of, whole
from conformance.wire.numbers import Mode, Numbers
from conformance.wire.operands import encoded

HANGS_ALLOWED = 3
BREAKS_ALLOWED = 32
_DROP_AT = 32
_NOTES_KEPT = 100


class Handle:
    """An object that lives in the driver: `sort` is `layer`, `cache`, `store`, `model` or `session`."""

    def __init__(self, number: int, sort: str, conversation: Conversation) -> None:
        self.number, self.sort, self.conversation = number, sort, conversation

    def __repr__(self) -> str:
        return f"<{self.sort} {self.number} of {self.conversation.command}>"

    def __del__(self) -> None:
        self.conversation.unheld.append(self.number)


def sort_of(given: Any) -> str:
    """What a handle stands for. Raises AdapterError for anything that is no handle."""
    if not isinstance(given, Handle):
        raise AdapterError(f"{given!r:.80} is not an object that this driver has built")
    return given.sort


class Driver:
    """A command, its running process if any, and how often it has broken."""

    def __init__(self, command: Sequence[str], limits: Limits, wanted: Mode | None) -> None:
        self.command, self._limits, self._wanted = list(command), limits, wanted
        self.conversation: Conversation | None = None
        self.notes: list[str] = []
        self.exchanges: deque[tuple[bytes, bytes]] = deque(maxlen=8)
        self._declaration: Declaration | None = None
        self._given_up: WireError | None = None
        self._hangs = self._breaks = 0

    @property
    def declaration(self) -> Declaration:
        """What the first hello declared; starts the driver where none has run yet."""
        return self._declaration or self.running().declaration

    @property
    def offers(self) -> frozenset[str]:
        """The optional requests that the driver offers; starts it where none has run yet."""
        return (self.conversation or self.running()).offers

    def running(self) -> Conversation:
        """The running conversation, started afresh where the last one has ended."""
        if self._given_up is not None:
            raise self._given_up
        if self.conversation is not None and self.conversation.ended is None:
            return self.conversation
        try:
            conversation = Conversation(self.command, self._limits, self._wanted, self.exchanges)
        except WireError as error:
            self._count(error, hung=False, start=self._declaration is None)
            raise
        self.conversation = conversation
        if self._declaration not in (None, conversation.declaration):
            conversation.end("its hello changed")
            self._given_up = conversation.problem(
                "the hello of a fresh process declares something else than the first"
            )
            raise self._given_up
        self._declaration = conversation.declaration
        return conversation

    def ask(self, method: str, operands: Mapping[str, Any]) -> tuple[Conversation, Any]:
        """Send a request to the process that its handles live in, or to the running one."""
        if self._given_up is not None:
            raise self._given_up
        handles = [operand for operand in operands.values() if isinstance(operand, Handle)]
        conversation = handles[0].conversation if handles else self.running()
        for handle in handles:
            if handle.conversation.ended is not None:
                raise GoneError(
                    f"{handle.sort} {handle.number} is gone with its process ({handle.conversation.ended})",
                    command=conversation.command,
                    asked=method,
                    advice="build it again in a fresh process",
                )
        message = {
            name: value.number if isinstance(value, Handle) else encoded(value, name, conversation.numbers)
            for name, value in operands.items()
            if value is not None
        }
        reply = self._exchange(conversation, method, message)
        if "inputs" in reply:
            with conversation.reading():
                _write_back(reply["inputs"], operands, conversation.numbers)
        return conversation, reply["result"]

    def build(self, method: str, sort: str, operands: Mapping[str, Any]) -> Handle:
        """A request whose answer is a new handle."""
        self._drop_unheld()
        conversation, result = self.ask(method, operands)
        with conversation.reading():
            number = whole(fields_of(result, "result", ("handle",), ("handle",))["handle"], "result.handle")
        if number in conversation.standing:
            raise conversation.problem(
                f"handle {number} was given twice; every object needs a number of its own"
            )
        conversation.standing.add(number)
        return Handle(number, sort, conversation)

    def _drop_unheld(self) -> None:
        """Tell the driver, in batches, which objects nobody holds any more."""
        conversation = self.conversation
        if conversation is None or conversation.ended is not None or len(conversation.unheld) < _DROP_AT:
            return
        numbers = [conversation.unheld.popleft() for _ in range(len(conversation.unheld))]
        self._exchange(conversation, "drop", {"handles": numbers})
        conversation.standing.difference_update(numbers)

    def _exchange(
        self, conversation: Conversation, method: str, message: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            return conversation.ask(method, message)
        except WireError as error:
            if conversation.ended is not None:
                self._count(error, hung=conversation.hung)
            raise
        finally:
            self.notes.extend(conversation.printed)
            conversation.printed.clear()
            del self.notes[:-_NOTES_KEPT]

    def _count(self, error: WireError, *, hung: bool, start: bool = False) -> None:
        """Count a break, and give the driver up where going on would only cost time."""
        self._breaks += 1
        self._hangs += hung
        if isinstance(error, LossyPipeError):
            self._given_up = error
        elif start or self._hangs >= HANGS_ALLOWED or self._breaks >= BREAKS_ALLOWED:
            when = "at its start" if start else f"after {self._breaks} breaks, {self._hangs} of them hangs"
            self._given_up = WireError(
                f"the driver was given up {when}; the last was: {error}", command=shlex.join(self.command)
            )


def _write_back(given: Any, operands: Mapping[str, Any], numbers: Numbers) -> None:
    """Show the caller what the implementation did to its inputs, as it would be seen in one process."""
    for name, message in fields_of(given, "inputs", tuple(operands)).items():
        changed, own = numbers.array_in(message, f"inputs.{name}"), operands[name]
        if not isinstance(own, np.ndarray) or own.shape != changed.shape:
            raise MessageError(f"inputs.{name}", "has not the shape of what was sent")
        if own.flags.writeable:
            own[...] = changed
