"""Writing report files: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from conformance.errors import UsageError


def check_writable(path: Path, asked_by: str) -> None:
    """Raise UsageError where `path` cannot be written, before a run that would be lost with it."""
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"{asked_by} {path}: there is no folder {folder}; make it first")
    if path.is_dir():
        raise UsageError(f"{asked_by} {path}: it is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{asked_by} {path}: the folder {folder} cannot be written to")


def write_whole(path: Path, text: str) -> None:
    """Write `text` so that `path` holds either all of it or what it held before. Raises UsageError."""
    check_writable(path, "writing")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise UsageError(f"writing {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
