"""How a run tells how far it has come."""

from __future__ import annotations

import io

import pytest

from conformance.commands import progress
from conformance.commands.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def played(stream: io.StringIO, clock: Clock, *, seconds: float, traces: int, quiet: bool = False) -> str:
    with Progress(stream, quiet=quiet) as shown:
        for done in range(traces):
            shown.show(done, traces, f"trace-{done}")
            clock.now += seconds
        shown.show(traces, traces, "")
    return stream.getvalue()


def test_a_short_run_into_a_file_says_nothing(clock: Clock) -> None:
    assert played(io.StringIO(), clock, seconds=0.01, traces=50) == ""


def test_a_long_run_into_a_file_says_a_line_now_and_then(clock: Clock) -> None:
    lines = played(io.StringIO(), clock, seconds=1.0, traces=25).splitlines()
    assert lines == [f"{n} of 25 traces, now trace-{n}" for n in (1, 11, 21)]


def test_a_terminal_sees_one_line_that_is_wiped(clock: Clock) -> None:
    text = played(Terminal(), clock, seconds=0.2, traces=3)
    shown = text.split("\r")
    assert [part.strip() for part in shown] == [
        "",
        *(f"{n} of 3 traces, now trace-{n}" for n in range(3)),
        "",
        "",
    ]
    assert len(shown[-2]) == len(shown[-3])


def test_quiet_is_quiet(clock: Clock) -> None:
    assert played(Terminal(), clock, seconds=5.0, traces=9, quiet=True) == ""
