"""A driver's process: started without a shell, spoken to with a deadline, ended with everything it started.

POSIX only: pipes are waited for with a selector, and a process is ended as the group that it leads.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from conformance.wire.lines import LINE_LIMIT
from conformance.wire.text import last_of

MARKER = "KV_CONFORMANCE_PROCESS"
"""Environment variable by which a process that left the group is still known as this driver's."""

_CHUNK = 1 << 18
_STDERR_KEPT = 1 << 14
_PATIENCE = 0.1
_GRACE = 0.2
_ROUNDS = 5


class BrokenPipe(Exception):  # noqa: N818 - what happened, before the client turns it into an error
    """The exchange cannot go on. `came` is what had been received, `hung` says that only time ran out."""

    def __init__(self, problem: str, came: bytes = b"", *, hung: bool = False) -> None:
        super().__init__(problem)
        self.problem, self.came, self.hung = problem, came, hung


class Child:
    """One running driver. Raises OSError where it cannot be started."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        line_limit: int = LINE_LIMIT,
        memory_limit: int | None = None,
    ) -> None:
        if os.name != "posix":
            raise OSError("drivers need a POSIX system (Linux, macOS)")
        marker = uuid.uuid4().hex
        # A driver may start drivers of its own: they carry the markers of all that started them.
        markers = f"{os.environ.get(MARKER, '')}:{marker}"
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {}), MARKER: markers},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._in, self._out, self._err = _pipes(self._process)
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)
        self._line_limit = line_limit
        self._received: list[bytes] = []
        self._size = 0
        self._stderr = bytearray()
        self._finalizer = weakref.finalize(self, _end, self._process, self._selector, marker, os.getpid())
        if memory_limit is not None:
            _limit_memory(self.pid, memory_limit)

    def exchange(self, line: bytes, deadline: float) -> bytes:
        """Write one line and return the one that answers it, without its end. Raises BrokenPipe."""
        pending = self._write(memoryview(line))
        if pending:
            self._selector.register(self._in, selectors.EVENT_WRITE)
        while True:
            reply = self._taken()
            if reply is not None and pending:
                raise BrokenPipe("it answered before it had read the whole request", reply)
            if reply is not None:
                if self._received:
                    everything = b"\n".join((reply, *self._received))
                    raise BrokenPipe("it wrote more than the one line that was asked for", everything)
                return reply
            pending = self._wait(deadline, pending)

    def finish(self, limit: float) -> None:
        """Close the driver's stdin and wait for it to leave of its own accord."""
        self._in.close()
        until = time.monotonic() + limit
        while not self.left() and time.monotonic() < until:
            time.sleep(0.005)

    def left(self) -> bool:
        """True when the process has ended; it is not reaped, so that its number stays its own."""
        if self._process.returncode is not None:
            return True
        if hasattr(os, "waitid"):
            try:
                return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            except ChildProcessError:
                return True
        return self._process.poll() is not None

    def end(self) -> str:
        """End the whole group, reap the driver, close every pipe; says how the process stood."""
        if not self._finalizer.alive:
            return "had been ended"
        until = time.monotonic() + _GRACE
        while not self.left() and self._out_closed and time.monotonic() < until:
            time.sleep(0.005)
        left = self.left()
        self._drain()
        self._finalizer()
        if not left:
            return "was still running and has been ended"
        code = self._process.returncode
        if code is not None and code < 0:
            return f"was ended by signal {-code} ({_signal_name(-code)})"
        return f"had exited with status {code}"

    def stderr_tail(self) -> str:
        """The last lines that the driver wrote on stderr."""
        return last_of(bytes(self._stderr))

    @property
    def _out_closed(self) -> bool:
        return self._out.fileno() not in self._selector.get_map() if self._selector.get_map() else True

    def _write(self, pending: memoryview) -> memoryview:
        try:
            while pending:
                written = self._in.write(pending)
                if written is None:
                    break
                pending = pending[written:]
        except (BrokenPipeError, ValueError):
            raise BrokenPipe("it has closed its stdin") from None
        return pending

    def _wait(self, deadline: float, pending: memoryview) -> memoryview:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            self._check_length()
            middle = " (the beginning of a line had come)" if self._size else ""
            raise BrokenPipe(f"no answer within the time limit{middle}", b"".join(self._received), hung=True)
        ready = self._selector.select(min(remaining, _PATIENCE))
        for key, _ in ready:
            if key.fileobj is self._err:
                self._read_stderr()
            elif key.fileobj is self._out:
                self._read_stdout()
            else:
                pending = self._write(pending)
                if not pending:
                    self._selector.unregister(self._in)
        if not ready and self.left():
            raise BrokenPipe("the driver has ended without answering", b"".join(self._received))
        return pending

    def _taken(self) -> bytes | None:
        """The first complete line that has been received."""
        if not self._received or b"\n" not in self._received[-1]:
            return None
        whole = b"".join(self._received)
        line, _, rest = whole.partition(b"\n")
        self._received = [rest] if rest else []
        self._size = len(rest)
        return line.removesuffix(b"\r")

    def _read_stdout(self) -> None:
        try:
            chunk = os.read(self._out.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._selector.unregister(self._out)
            middle = "in the middle of a line" if self._size else "without answering"
            raise BrokenPipe(f"it closed its stdout {middle}", b"".join(self._received))
        self._received.append(chunk)
        self._size += len(chunk)
        if b"\n" not in chunk:
            self._check_length()

    def _check_length(self) -> None:
        if self._size > self._line_limit:
            raise BrokenPipe(
                f"a line longer than the limit of {self._line_limit} bytes came",
                b"".join(self._received)[:1000],
            )

    def _read_stderr(self) -> bool:
        try:
            chunk = os.read(self._err.fileno(), _CHUNK)
        except (BlockingIOError, ValueError):
            return False
        if not chunk:
            self._selector.unregister(self._err)
            return False
        self._stderr += chunk
        del self._stderr[:-_STDERR_KEPT]
        return True

    def _drain(self) -> None:
        for _ in range(64):
            if (
                self._err.closed
                or self._err.fileno() not in self._selector.get_map()
                or not self._read_stderr()
            ):
                return


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise OSError("the process was started without pipes")
    return process.stdin, process.stdout, process.stderr


def _end(process: subprocess.Popen[bytes], selector: selectors.BaseSelector, marker: str, owner: int) -> None:
    """End a driver and all that it started. In a fork of the process that started it, do nothing."""
    if os.getpid() != owner:
        return
    selector.close()
    if process.returncode is None:
        # The leader is not reaped yet, so the group's number cannot have passed to anybody else.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    for _ in range(_ROUNDS):
        escaped = _marked(marker)
        for pid in escaped:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not escaped:
            break
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _marked(marker: str) -> list[int]:
    """Processes that carry a driver's marker in their environment, found where /proc exists."""
    wanted = marker.encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def _limit_memory(pid: int, limit: int) -> None:
    import resource  # noqa: PLC0415 - absent on systems without POSIX

    if hasattr(resource, "prlimit"):
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
