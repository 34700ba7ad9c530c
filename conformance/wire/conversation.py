"""One process and the talk with it: sequence numbers, hello, echo, time limits, and why it ended."""

from __future__ import annotations

import errno
import shlex
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.adapter import Declaration
from conformance.contract.model import CONTRACT_VERSION
from conformance.rejections import Rejected
from conformance.wire.child import BrokenPipe, Child
from conformance.wire.echo import echo_values, lost_in_echo
from conformance.wire.errors import DriverError, LossyPipeError, MessageError, WireError
from conformance.wire.lines import LINE_LIMIT, read_line, write_line
from conformance.wire.messages import declaration_in, fields_of, refusal_in, text
from conformance.wire.numbers import Mode, Numbers
from conformance.wire.protocol import OPTIONAL, PROTOCOL_VERSION
from conformance.wire.text import described, printable

REPLY = ("seq", "result", "rejected", "error", "inputs", "printed")
_SHOWN = 4000
ANSWERS = ("result", "rejected", "error")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a driver may use: seconds per request and for its start, bytes per line, bytes of memory."""

    request: float = 10.0
    start: float = 30.0
    line: int = LINE_LIMIT
    memory: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Conversation:
    """A started driver that has passed hello and echo. Raises WireError where it does not.

    `ended` says why the process is gone, or is None; `hung` that it was ended for its time limit; `standing`
    are the handles given out, `unheld` those that nobody holds any more; `exchanges` takes the beginning of
    every line sent and received.
    """

    def __init__(
        self,
        command: Sequence[str],
        limits: Limits,
        wanted: Mode | None = None,
        exchanges: deque[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self.command = shlex.join(command)
        self.ended: str | None = None
        self.hung = False
        self.printed: list[str] = []
        self.exchanges = deque(maxlen=1) if exchanges is None else exchanges
        self.standing: set[int] = set()
        self.unheld: deque[int] = deque()
        self.numbers = Numbers()
        self.offers: frozenset[str] = frozenset()
        self._limits, self._seq, self._asked = limits, 0, "hello"
        try:
            self._child = Child(
                command,
                environment=limits.environment,
                line_limit=limits.line,
                memory_limit=limits.memory,
            )
        except (OSError, ValueError) as error:
            self.ended = "it could not be started"
            raise WireError(
                f"cannot be started: {error}",
                command=self.command,
                advice=_start_advice(error),
            ) from None
        self.declaration = self._hello(wanted)
        self._echo()

    def ask(self, method: str, operands: Mapping[str, Any], *, limit: float | None = None) -> dict[str, Any]:
        """Send one request and return its reply, a result. Raises Rejected, DriverError, WireError."""
        if self.ended is not None:
            raise WireError(f"the process is gone: {self.ended}", command=self.command, asked=method)
        self._seq += 1
        self._asked = f"{method} (request {self._seq})"
        try:
            line = write_line({"seq": self._seq, "method": method, **operands})
            raw = self._child.exchange(line, time.monotonic() + (limit or self._limits.request))
            self.exchanges.append((line[:_SHOWN], raw[:_SHOWN]))
            reply = read_line(raw)
        except BrokenPipe as broken:
            self.hung = broken.hung
            self.exchanges.append((line[:_SHOWN], broken.came[:_SHOWN]))
            raise self._broken(broken.problem, broken.came) from None
        except MessageError as error:
            raise self._broken(f"the line is no reply: {error}", raw) from None
        except BaseException:
            self.end("it was interrupted")
            raise
        self._check_envelope(reply, raw)
        if "printed" in reply:
            self.printed.append(f"{method} printed on stdout: {printable(str(reply['printed']))}")
            del self.printed[:-100]
        if "error" in reply:
            raise self._driver_error(reply["error"])
        if "rejected" in reply:
            with self.reading(raw):
                raise refusal_in(reply["rejected"], "rejected", self.numbers)
        return reply

    def reading(self, came: bytes = b"") -> _Reading:
        """A context in which a MessageError becomes a WireError of the current request."""
        return _Reading(self, came)

    def problem(self, problem: str, came: bytes = b"", advice: str = "") -> WireError:
        """An error of the current request; the process goes on."""
        return WireError(problem, **self._context(came), advice=advice)

    def bye(self) -> str:
        """Part politely: `bye`, a moment to leave, then the end. Says what was wrong with it, or ""."""
        if self.ended is not None:
            return ""
        limit, problem = min(2.0, self._limits.request), ""
        try:
            self.ask("bye", {}, limit=limit)
            self._child.finish(limit=limit)
            if not self._child.left():
                problem = f"it still runs {limit:g} s after bye and the end of its stdin; leave then"
        except Rejected as refusal:
            problem = f"bye was refused as {refusal.kind}; answer with null, and leave"
        except WireError as error:
            problem = f"{error}; answer with null, and leave"
        self.end("it was said goodbye to")
        return problem

    def end(self, why: str) -> str:
        """End the process; says how it stood."""
        status = self._child.end()
        self.ended = self.ended or why
        return status

    @property
    def pid(self) -> int:
        """The process id of the driver."""
        return self._child.pid

    def stderr_tail(self) -> str:
        """The last lines that the driver wrote on stderr."""
        return self._child.stderr_tail()

    def _hello(self, wanted: Mode | None) -> Declaration:
        operands: dict[str, Any] = {"protocol": PROTOCOL_VERSION, "contract": CONTRACT_VERSION}
        if wanted is not None:
            operands["numbers"] = wanted
        try:
            result = self.ask("hello", operands, limit=self._limits.start)["result"]
            fields = fields_of(
                result,
                "result",
                ("protocol", "declaration", "numbers", "offers"),
                ("protocol", "declaration"),
            )
            _check_version(fields["protocol"])
            self.numbers = Numbers(_mode(fields.get("numbers", "decimal"), wanted))
            self.offers = _offers(fields.get("offers", []))
            return declaration_in(fields["declaration"], "result.declaration")
        except MessageError as error:
            raise self._broken(f"the hello is wrong: {error}") from None
        except DriverError:
            self.end("its hello was an error")
            raise

    def _echo(self) -> None:
        try:
            result = self.ask(
                "echo", {"values": self.numbers.array_out(echo_values())}, limit=self._limits.start
            )["result"]
            lost = lost_in_echo(result, self.numbers)
        except MessageError as error:
            raise self._broken(f"the echo is wrong: {error}") from None
        except DriverError:
            self.end("its echo was an error")
            raise
        if lost is not None:
            context = self._context(b"")
            self.end("its pipe loses bits")
            raise LossyPipeError(
                lost, **context, advice="no number of this driver is judged until the echo comes back whole"
            )

    def _check_envelope(self, reply: dict[str, Any], raw: bytes) -> None:
        seq = reply.get("seq")
        if type(seq) is not int or seq != self._seq:
            raise self._broken(f"seq {self._seq} was asked, {described(seq)} was answered", raw)
        unknown = [name for name in reply if name not in REPLY]
        if unknown:
            raise self._broken(f"the reply holds {unknown[0]!r}; it may hold {', '.join(REPLY)}", raw)
        if sum(name in reply for name in ANSWERS) != 1:
            raise self._broken(f"a reply holds exactly one of {', '.join(ANSWERS)}", raw)

    def _driver_error(self, given: Any) -> WireError:
        with self.reading():
            entry = fields_of(given, "error", ("type", "message", "detail"), ("message",))
            kind, message = (
                text(entry.get("type", "Error"), "error.type"),
                text(entry["message"], "error.message"),
            )
            detail = text(entry.get("detail", ""), "error.detail")
        named = f", {printable(kind, 80)}" if "type" in entry else ""
        return DriverError(
            f"the driver answered with an error{named}: {printable(message, 1000)}",
            type=kind,
            message=message,
            **{**self._context(b""), "stderr": detail[-4000:] or self._child.stderr_tail()},
        )

    def _broken(self, problem: str, came: bytes = b"") -> WireError:
        """End the process and say what happened, now that its status and stderr are known."""
        status = self.end(problem)
        last = self._child.stderr_tail().rpartition("\n")[2]
        self.ended = f"{self._asked}: {problem}; it {status}{last and f'; last on stderr: {last}'}"
        return WireError(
            problem,
            **{**self._context(came), "status": status},
            advice=_break_advice(came, hung=self.hung),
        )

    def _context(self, came: bytes) -> dict[str, str]:
        return {
            "command": self.command,
            "asked": self._asked,
            "came": f"'{printable(came)}'" if came else "",
            "stderr": self._child.stderr_tail(),
        }


def _start_advice(error: OSError | ValueError) -> str:
    code = getattr(error, "errno", None)
    if code == errno.EACCES:
        return "make it executable (chmod +x), or name what runs it, as in cmd:ruby driver.rb"
    if code == errno.ENOEXEC:
        return "give the script a first line such as #!/usr/bin/env ruby, or name what runs it"
    return "the command runs without a shell; give a program and its arguments"


def _break_advice(came: bytes, *, hung: bool) -> str:
    """What to do about a broken exchange, as far as the text that came shows it."""
    lines = [line.strip() for line in came.splitlines()[:8]]
    if len(lines) > 1 and lines[0].startswith(b"{") and not lines[0].endswith(b"}"):
        return "write each reply on one line, without line breaks inside"
    if any(line and not line.startswith(b"{") for line in lines):
        return "stdout is for the protocol only; print on stderr"
    if lines and not all(lines):
        return "write no empty lines"
    return "end every reply with a line break, and flush stdout after it" if hung else ""


def _check_version(given: Any) -> None:
    if type(given) is not int or given != PROTOCOL_VERSION:
        raise MessageError(
            "result.protocol", f"{described(given)} is spoken, {PROTOCOL_VERSION} is asked for"
        )


def _offers(given: Any) -> frozenset[str]:
    if not isinstance(given, list) or not all(name in OPTIONAL for name in given):
        raise MessageError("result.offers", f"{described(given)} is not a list out of {', '.join(OPTIONAL)}")
    return frozenset(given)


def _mode(given: Any, wanted: Mode | None) -> Mode:
    if given not in ("decimal", "bits") or wanted not in (None, given):
        raise MessageError(
            "result.numbers", f"{described(given)} came, {wanted or 'decimal or bits'} was asked for"
        )
    return "bits" if given == "bits" else "decimal"


class _Reading:
    def __init__(self, conversation: Conversation, came: bytes) -> None:
        self._conversation, self._came = conversation, came

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, MessageError):
            raise self._conversation.problem(f"the reply is wrong: {error}", self._came) from None
