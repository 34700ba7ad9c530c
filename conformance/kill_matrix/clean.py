"""What the clean implementations do on a trace, kept.

A killer is a clean class with a few methods changed. Where a trace calls none of them, the killer does what
the clean class did, so it is not played; where it is played and shows bit for bit what the clean class showed
up to some step, the clean class has passed those steps for it, so they are not judged again. Both save time
and change nothing: tests hold them against playing and judging everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conformance.adapter import Declaration
from conformance.adapters.numpy_paged import NumpyPagedAdapter
from conformance.judge import Check, judge
from conformance.kill_matrix.changed import FORMS, changed_places, noting_class, own_names
from conformance.kill_matrix.kept import alike_key
from conformance.kill_matrix.remembered import RememberedBlocks, RememberedStages
from conformance.kill_matrix.seen import Seen, known_steps, seen
from conformance.killers.open_attention import OpenAttentionAdapter
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_store import OpenStoreAdapter
from conformance.player import play
from conformance.trace.model import Trace

CLEAN: tuple[type, ...] = (
    OpenLayerAdapter,
    OpenAttentionAdapter,
    OpenStoreAdapter,
    OpenDecoderAdapter,
    NumpyPagedAdapter,
)


@dataclass(frozen=True)
class CleanPlay:
    """called: the methods that the trace called. seen: its steps, as far as they passed."""

    called: frozenset[str]
    seen: tuple[Seen, ...]


class _CleanPlays:
    """The plays of one clean class in one form under one declaration, made when they are asked for."""

    def __init__(self, clean: type, form: Mapping[str, Any], declaration: Declaration) -> None:
        self.clean = clean
        self._called: set[str] = set()
        self._adapter = noting_class(clean, form, self._called)()
        self.remembered = _memory(clean)
        if self.remembered is not None:
            self.remembered.learn(self._adapter)
        self._declaration = declaration
        self._plays: dict[str, CleanPlay] = {}

    def of(self, trace: Trace) -> CleanPlay:
        """What the clean class does on a trace."""
        if trace.id not in self._plays:
            self._called.clear()
            playthrough = play(trace, self._adapter)
            found = judge(playthrough, self._declaration, findings_only=True)
            first = min((check.step for check in found if check.status in ("fail", "error")), default=None)
            passed = tuple(seen(playthrough))[:first] if playthrough.broken is None else ()
            self._plays[trace.id] = CleanPlay(frozenset(self._called), passed)
        return self._plays[trace.id]


def findings(adapter: Any, declaration: Declaration, trace: Trace) -> list[Check]:
    """What does not pass when an adapter plays the whole trace and every step is judged."""
    return judge(play(trace, adapter), declaration, findings_only=True)


def take_what_is_remembered(adapter: Any, declaration: Declaration) -> _CleanPlays | None:
    """Spare an adapter what its clean class has computed; the plays of that class, if there is one."""
    clean = next((kind for kind in type(adapter).__mro__ if kind in CLEAN), None)
    if clean is None:
        return None
    plays = _clean_plays(clean, type(adapter), declaration)
    if plays.remembered is not None:
        plays.remembered.attach(adapter, own_names(adapter, clean))
    return plays


class AgainstClean:
    """A killer beside the clean class that it is made from, if there is one."""

    def __init__(self, adapter: Any, declaration: Declaration) -> None:
        self.adapter, self.declaration = adapter, declaration
        self._plays = take_what_is_remembered(adapter, declaration)
        self._changed: frozenset[str] | None = None
        if self._plays is not None:
            self._changed = changed_places(type(adapter), self._plays.clean)

    def findings(self, trace: Trace) -> list[Check]:
        """What does not pass when the killer plays the trace."""
        if self._plays is None:
            return findings(self.adapter, self.declaration, trace)
        clean = self._plays.of(trace)
        passed = len(clean.seen) == len(trace.steps)
        if passed and self._changed is not None and self._changed.isdisjoint(clean.called):
            return []
        playthrough = play(trace, self.adapter)
        known = frozenset(known_steps(playthrough, clean.seen))
        return judge(playthrough, self.declaration, findings_only=True, known=known)


_kept: dict[tuple[type, str, str], _CleanPlays] = {}


def _clean_plays(clean: type, adapter: type, declaration: Declaration) -> _CleanPlays:
    form = {name: getattr(adapter, name) for name in sorted(FORMS) if hasattr(clean, name)}
    key = clean, repr(form), alike_key(declaration)
    if key not in _kept:
        _kept[key] = _CleanPlays(clean, form, declaration)
    return _kept[key]


def _memory(clean: type) -> RememberedStages | RememberedBlocks | None:
    if issubclass(clean, OpenDecoderAdapter):
        return RememberedBlocks()
    return RememberedStages() if issubclass(clean, OpenLayerAdapter) else None
