"""Errors of the wire. A refused call is a `Rejected`; these say that the driver or the pipe broke."""

from __future__ import annotations

from conformance.errors import AdapterError


class WireError(AdapterError):
    """A request over the pipe had no usable answer.

    asked: the request in words. came: what was received, shortened. status: how the process stands, such as
    "exited with status 3". stderr: the end of what it wrote there. advice: what to do. Each may be "".
    """

    def __init__(
        self,
        problem: str,
        *,
        command: str = "",
        asked: str = "",
        came: str = "",
        status: str = "",
        stderr: str = "",
        advice: str = "",
    ) -> None:
        self.problem, self.command, self.asked = problem, command, asked
        self.came, self.status, self.stderr, self.advice = came, status, stderr, advice
        program = f"`{command}`" if command else ""
        opening = f"{asked} to {program}" if asked and program else asked or program
        sentences = [
            f"{opening}: {problem}" if opening else problem,
            f"it sent {came}" if came else "",
            f"the process {status}" if status else "",
            advice,
            f"its stderr ends: {stderr}" if stderr else "",
        ]
        super().__init__("; ".join(part for part in sentences if part))


class GoneError(WireError):
    """The request names an object of a process that has ended: a consequence of an earlier break."""


class LossyPipeError(WireError):
    """The echo round lost a bit: no number that comes through this pipe can be judged."""


class DriverError(WireError):
    """The driver answered with an error of its own: `type` and `message` as it named them."""

    def __init__(self, problem: str, *, type: str, message: str, **context: str) -> None:  # noqa: A002
        super().__init__(problem, **context)
        self.type, self.message = type, message


class MessageError(ValueError):
    """A message is not what the protocol allows; `place` is the path of the field (`result.length`)."""

    def __init__(self, place: str, problem: str) -> None:
        self.place, self.problem = place, problem
        super().__init__(f"{place}: {problem}" if place else problem)
