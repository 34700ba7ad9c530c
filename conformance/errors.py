"""Errors that the kit itself raises; a refused call of an implementation is a `Rejected` instead."""


class ConformanceError(Exception):
    """Root of every error of the kit; its text says what was asked, what happened, where, what to do."""


class TraceError(ConformanceError, ValueError):
    """A trace is cut, doubled, hostile or wrong.

    `file`, `line` (from 1) and `path` (such as `steps[3].expect.output`) say where, as far as is known.
    """

    def __init__(self, problem: str, *, file: str = "", line: int = 0, path: str = "") -> None:
        self.problem, self.file, self.line, self.path = problem, file, line, path
        place = ":".join(part for part in (file, str(line) if line else "") if part)
        super().__init__(": ".join(part for part in (place, path, problem) if part))


class AdapterError(ConformanceError, RuntimeError):
    """An adapter cannot be found, imported or built, or broke the agreement between it and the kit."""


class UsageError(ConformanceError, ValueError):
    """The caller named a flag, profile, requirement or adapter that does not exist."""
