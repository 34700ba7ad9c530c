"""Calling foreign code so that whatever it raises becomes a record."""

from __future__ import annotations

import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import numpy as np

from conformance.adapter import Declaration
from conformance.player.records import Errored, RefusedCall
from conformance.rejections import Rejected

CARRIED = ("stage", "index", "value", "parameter", "expected", "found")

Value = TypeVar("Value")

_interrupted = threading.Event()
_entered = threading.local()


@contextmanager
def interruptible() -> Iterator[None]:
    """Around calls of foreign code: quiet, and a user's Ctrl-C told from a KeyboardInterrupt of its own.

    Whoever plays many traces enters it once around all of them; inside of it, it does nothing more.
    """
    if getattr(_entered, "already", False):
        yield
        return
    _entered.already = True
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _interrupts_told():
                yield
    finally:
        _entered.already = False


@contextmanager
def _interrupts_told() -> Iterator[None]:
    outside = threading.current_thread() is not threading.main_thread()
    if outside or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        _interrupted.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _interrupted.clear()


def call(declaration: Declaration, work: Callable[[], Value]) -> Value | RefusedCall | Errored:
    """The value of `work()`, or the record of what it raised: nothing escapes but a user's own Ctrl-C."""
    try:
        return work()
    except Rejected as refusal:
        carried = {name: v for name in CARRIED if (v := getattr(refusal, name)) is not None}
        return RefusedCall(refusal.kind, refusal.message, carried)
    except BaseException as error:
        if _interrupted.is_set():
            raise
        for kind_of_error, kind in declaration.rejections.items():
            if isinstance(error, kind_of_error):
                return RefusedCall(kind, f"{type(error).__name__}: {_text(error)}")
        return Errored(f"{type(error).__name__}: {_text(error)}", _trace_of(error))


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception whose text raises is still only an exception
        text = "(its text cannot be read)"
    return text if len(text) <= 2000 else text[:2000] + " ..."


def _trace_of(error: BaseException) -> str:
    """The traceback from the first frame that is not the kit's own."""
    try:
        frames = traceback.extract_tb(error.__traceback__)
        foreign = [f for f in frames if "/conformance/player/" not in f.filename.replace("\\", "/")]
        lines = traceback.format_list(foreign or list(frames))
        text = "".join(lines) + f"{type(error).__name__}: {_text(error)}\n"
    except Exception:  # noqa: BLE001 - see _text
        return ""
    return text if len(text) <= 8000 else text[:4000] + "  ...\n" + text[-4000:]
