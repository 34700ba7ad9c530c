"""Traces, made once for all implementations that declare the same: they are values."""

from __future__ import annotations

from dataclasses import replace

from conformance.adapter import Declaration
from conformance.suite import traces
from conformance.trace.model import Trace

TWIN = "AGREE-TWIN"
"""Twins find what has learnt the golden files, and nothing that the golden files do not find."""

_kept: dict[tuple[str, bool], tuple[Trace, ...]] = {}


def alike_key(declaration: Declaration) -> str:
    """What traces are made from: everything that is declared but names, versions and exceptions."""
    plain = replace(declaration, name="", version="", rejections={}, features=frozenset())
    return repr(plain) + repr(sorted(declaration.features))


def kept_traces(declaration: Declaration, *, twins: bool = True) -> tuple[Trace, ...]:
    """The traces of a declaration, with or without the twins of golden ones."""
    key = alike_key(declaration)
    if (key, twins) not in _kept:
        every = _kept.get((key, True)) or tuple(traces(declaration))
        _kept[key, True] = every
        _kept[key, False] = tuple(trace for trace in every if TWIN not in trace.requirements())
    return _kept[key, twins]
