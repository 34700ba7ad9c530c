"""The driver's side for a Python adapter: reads requests, calls the adapter, writes replies."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from conformance.adapter import Declaration
from conformance.rejections import Rejected
from conformance.wire.errors import MessageError
from conformance.wire.lines import read_line, write_line
from conformance.wire.messages import declaration_out, fields_of, refusal_out
from conformance.wire.numbers import Numbers, bits_of
from conformance.wire.operands import operand_in
from conformance.wire.outgoing import (
    array_of,
    handed_out,
    observation_message,
    overwrite_row,
    pair_message,
    step_message,
)
from conformance.wire.protocol import (
    BY_KEYWORD,
    HANDLES,
    OMITTED,
    OPTIONAL,
    PROTOCOL_VERSION,
    Request,
    forms_of,
    request_for,
)
from conformance.wire.text import described

_CHEAPER = "bits"
"""What is spoken where nothing is asked for: Python writes decimals four times as slowly."""

_SCRIBBLED = frozenset({"rows", "query", "key", "value", "keys", "values"})


def serve(
    adapter: Any | Callable[[], Any],
    stdin: BinaryIO,
    stdout: BinaryIO,
    *,
    printed: Callable[[], str] | None = None,
) -> None:
    """Answer requests until `bye` or the end of `stdin`.

    adapter: an adapter, or a function without arguments that makes one, called at the hello so that its
    failure is an answer. printed: returns and forgets what has been printed on stdout since the last call.
    Nothing that the adapter raises ends the loop; SystemExit and KeyboardInterrupt are answered as errors.
    """
    server = _Server(adapter)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in iter(stdin.readline, b""):
            reply, last = server.answer(line)
            text = printed() if printed is not None else ""
            stdout.write(_line_of({**reply, "printed": text[-2000:]} if text else reply))
            stdout.flush()
            if last:
                return


class _Server:
    def __init__(self, adapter: Any) -> None:
        self._source, self._adapter = adapter, None
        self._numbers = Numbers()
        self._objects: dict[int, tuple[str, Any]] = {}
        self._next = 1

    def answer(self, line: bytes) -> tuple[dict[str, Any], bool]:
        """The reply to one request, and whether it was the last."""
        seq: Any = None
        try:
            message = read_line(line.rstrip(b"\r\n"))
            seq, method = message.pop("seq", None), message.pop("method", None)
            reply = {"seq": seq, **self._do(method, message)}
        except Rejected as refusal:
            return {"seq": seq, "rejected": refusal_out(refusal, self._numbers)}, False
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of an adapter included
            return {"seq": seq, **_raised(error)}, False
        return reply, method == "bye"

    def _do(self, method: Any, message: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(method, str):
            raise MessageError("method", f"{described(method)} is not the name of a request")
        if method == "hello":
            return {"result": self._hello(message)}
        if method == "echo":
            values = self._numbers.array_in(
                fields_of(message, "", ("values",), ("values",))["values"], "values"
            )
            bits = [bits_of(value) for value in values.tolist()]
            return {"result": {"values": self._numbers.array_out(values), "bits": bits}}
        if method == "drop":
            for number in fields_of(message, "", ("handles",), ("handles",))["handles"]:
                self._objects.pop(number, None)
            return {"result": None}
        if method == "bye":
            self._objects.clear()
            return {"result": None}
        request = request_for(method, message)
        if request is None:
            forms = (
                " or ".join(f"({form})" for form in forms_of(method)) or "nothing: there is no such method"
            )
            raise MessageError("", f"{method} was asked with ({', '.join(message)}); it takes {forms}")
        return self._call(request, message)

    def _hello(self, message: dict[str, Any]) -> dict[str, Any]:
        fields_of(message, "", ("protocol", "contract", "numbers"), ("protocol",))
        if message["protocol"] != PROTOCOL_VERSION:
            raise MessageError(
                "protocol", f"{described(message['protocol'])} is asked, {PROTOCOL_VERSION} is spoken"
            )
        if self._adapter is None:
            self._adapter = self._source if hasattr(self._source, "declaration") else self._source()
        mode = message.get("numbers", _CHEAPER)
        self._numbers = Numbers(mode)
        return {
            "protocol": PROTOCOL_VERSION,
            "declaration": declaration_out(self._declaration),
            "numbers": mode,
            "offers": list(OPTIONAL) if "storage" in self._declaration.features else [],
        }

    @property
    def _declaration(self) -> Declaration:
        if self._adapter is None:
            raise MessageError("", "the first request is hello")
        declaration: Declaration = self._adapter.declaration
        return declaration

    def _call(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        operands = {
            name: self._operand(message[name], name, kind.rstrip("?")) if name in message else None
            for name, kind in request.operands.items()
        }
        declaration = self._declaration
        method = self._method(request.method)
        left_out = [name for name in operands if name not in message and (request.method, name) in OMITTED]
        named = BY_KEYWORD.get(request.method, ())
        inputs = {name: value for name, value in operands.items() if isinstance(value, np.ndarray)}
        kept = {name: value.copy() for name, value in inputs.items()}
        try:
            value = method(
                *(operands[name] for name in operands if name not in (*named, *left_out)),
                **{name: operands[name] for name in named},
            )
        except Rejected:
            raise
        except BaseException as error:
            for raised, kind in declaration.rejections.items():
                if isinstance(error, raised):
                    return {"rejected": {"kind": kind, "message": f"{type(error).__name__}: {error}"}}
            raise
        reply: dict[str, Any] = {"result": self._result(request, value, operands)}
        changed = [name for name in inputs if inputs[name].tobytes() != kept[name].tobytes()]
        if changed:
            reply["inputs"] = {name: self._numbers.array_out(inputs[name]) for name in changed}
        self._scribble(request, inputs, value)
        return reply

    def _method(self, name: str) -> Callable[..., Any]:
        found = getattr(self._adapter, name, None)
        if found is None and name == "overwrite_row":
            return partial(overwrite_row, self._adapter)
        if not callable(found):
            raise MessageError("", f"the adapter has no method {name!r}")
        return found  # type: ignore[no-any-return]

    def _scribble(self, request: Request, inputs: Mapping[str, Any], value: Any) -> None:
        """Spoil the arrays that went in and came out: an adapter that kept them as its storage shows it.

        In one process the player changes its arrays after a call; over a pipe it has none in common.
        """
        if request.method != "append":
            return
        given = [array for name, array in inputs.items() if name in _SCRIBBLED]
        returned = handed_out(value) if request.answer == "step" else []
        for array in (*given, *returned):
            if array.flags.writeable:
                array[...] = np.nan if array.dtype.kind in "fV" else 0

    def _operand(self, given: Any, name: str, kind: str) -> Any:
        if kind in ("handle", "cache_handle"):
            sort = name if kind == "handle" else "cache"
            if type(given) is not int or given not in self._objects or self._objects[given][0] != sort:
                raise MessageError(name, f"{described(given)} is not the handle of a standing {sort}")
            return self._objects[given][1]
        return operand_in(given, name, kind, self._numbers)

    def _result(self, request: Request, value: Any, operands: Mapping[str, Any]) -> Any:
        answer = request.answer
        if answer == "step":
            return step_message(value, self._numbers)
        if answer == "observation":
            return observation_message(value, self._numbers)
        if answer in ("prefix", "pair"):
            return pair_message(value, self._numbers)
        if answer in ("logits", "output"):
            return {answer: self._numbers.array_out(array_of(value, answer))}
        if answer in ("none", "written"):
            return {"written": False} if value is False else None
        sort = answer if answer != "same" else next(name for name in operands if name in HANDLES)
        number, self._next = self._next, self._next + 1
        self._objects[number] = (sort, value)
        return {"handle": number}


def _raised(error: BaseException) -> dict[str, Any]:
    try:
        message, detail = str(error), "".join(traceback.format_exception(error)[-12:])
    except BaseException:  # noqa: BLE001 - an exception whose text raises is still only an exception
        message, detail = "(its text cannot be read)", ""
    return {"error": {"type": type(error).__name__, "message": message[:2000], "detail": detail[-8000:]}}


def _line_of(reply: dict[str, Any]) -> bytes:
    try:
        return write_line(reply)
    except (TypeError, ValueError) as error:
        return write_line(
            {"seq": reply["seq"], "error": {"type": "MessageError", "message": str(error)[:2000]}}
        )
