"""What the clean implementations do on a trace, kept.

A killer is a clean class with a few methods changed. Where a trace calls none of them, the killer does what
the clean class did, so it is not played; where it is played and shows bit for bit what the clean class showed
up to some step, the clean class has passed those steps for it, so they are not judged again. Both save time
and change nothing: tests hold them against playing and judging everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from types import FunctionType
from typing import Any

from conformance.adapter import Declaration
from conformance.adapters.numpy_paged import NumpyPagedAdapter
from conformance.judge import Check, judge
from conformance.kill_matrix.kept import alike_key
from conformance.kill_matrix.remembered import RememberedBlocks, RememberedStages
from conformance.killers.open_attention import OpenAttentionAdapter
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_store import OpenStoreAdapter
from conformance.player import Playthrough, play
from conformance.player.records import CacheView, Outcome, Returned
from conformance.trace.expect import Custom, Same
from conformance.trace.model import Trace

CLEAN: tuple[type, ...] = (
    OpenLayerAdapter,
    OpenAttentionAdapter,
    OpenStoreAdapter,
    OpenDecoderAdapter,
    NumpyPagedAdapter,
)

WITHOUT_EFFECT = frozenset({"name", "__doc__", "__module__", "__qualname__", "__annotations__"})
"""What a class may hold of its own and still behave as the one that it is made from."""

FORMS = frozenset({"one_row"})
"""What the clean class may be given another value of, and be clean."""

LISTS = frozenset({"checks", "prefill_checks", "decode_checks", "binding_checks", "finite_stages", "dropped"})
"""Which checks are made, in which order: where none refuses, fewer or in another order they do the same."""

REFUSED = "a refusal"
"""Noted beside the methods where something was raised."""

Seen = tuple[Any, ...]
"""Everything that a judge may look at in one step, as values that can be compared."""


@dataclass(frozen=True)
class CleanPlay:
    """called: the methods that the trace called. seen: its steps, as far as they passed."""

    called: frozenset[str]
    seen: tuple[Seen, ...]


class _CleanPlays:
    """The plays of one clean class in one form under one declaration, made when they are asked for."""

    def __init__(self, clean: type, form: Mapping[str, Any], declaration: Declaration) -> None:
        self._called: set[str] = set()
        self._adapter = _noting(clean, form, self._called)()
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
            passed = tuple(_seen(playthrough))[:first] if playthrough.broken is None else ()
            self._plays[trace.id] = CleanPlay(frozenset(self._called), passed)
        return self._plays[trace.id]


def findings(trace: Trace, adapter: Any, declaration: Declaration) -> list[Check]:
    """What does not pass when an adapter plays the whole trace and every step is judged."""
    return judge(play(trace, adapter), declaration, findings_only=True)


def take_what_is_remembered(adapter: Any, declaration: Declaration) -> _CleanPlays | None:
    """Spare an adapter what its clean class has computed; the plays of that class, if there is one."""
    clean = _clean_class(adapter)
    if clean is None:
        return None
    plays = _clean_plays(clean, type(adapter), declaration)
    if plays.remembered is not None:
        plays.remembered.attach(adapter, _own_names(adapter, clean))
    return plays


def _clean_class(adapter: Any) -> type | None:
    return next((kind for kind in type(adapter).__mro__ if kind in CLEAN), None)


class AgainstClean:
    """A killer beside the clean class that it is made from, if there is one."""

    def __init__(self, adapter: Any, declaration: Declaration) -> None:
        self.adapter, self.declaration = adapter, declaration
        clean = _clean_class(adapter)
        self._changed = None if clean is None else _changed(type(adapter), clean)
        self._plays = take_what_is_remembered(adapter, declaration)

    def findings(self, trace: Trace) -> list[Check]:
        """What does not pass when the killer plays the trace."""
        if self._plays is None:
            return findings(trace, self.adapter, self.declaration)
        clean = self._plays.of(trace)
        passed = len(clean.seen) == len(trace.steps)
        if passed and self._changed is not None and self._changed.isdisjoint(clean.called):
            return []
        playthrough = play(trace, self.adapter)
        known = frozenset(_known(playthrough, clean))
        return judge(playthrough, self.declaration, findings_only=True, known=known)


_kept: dict[tuple[type, str, str], _CleanPlays] = {}


def _clean_plays(clean: type, adapter: type, declaration: Declaration) -> _CleanPlays:
    form = {name: getattr(adapter, name) for name in sorted(FORMS) if hasattr(clean, name)}
    key = clean, repr(form), alike_key(declaration)
    if key not in _kept:
        _kept[key] = _CleanPlays(clean, form, declaration)
    return _kept[key]


def _changed(adapter: type, clean: type) -> frozenset[str] | None:
    """Where a class may be another than the clean one: methods called, refusals. None: anywhere."""
    changed: set[str] = set()
    for kind in adapter.__mro__[: adapter.__mro__.index(clean)]:
        for name, own in vars(kind).items():
            if name in WITHOUT_EFFECT or name in FORMS or _is_note(name, own, clean):
                continue
            if isinstance(own, FunctionType) and not name.startswith("__"):
                changed.add(name)
            elif name in LISTS and isinstance(own, tuple) and (name == "dropped" or _fewer(name, own, clean)):
                changed.add(REFUSED)
            else:
                return None
    return frozenset(changed)


def _memory(clean: type) -> RememberedStages | RememberedBlocks | None:
    if issubclass(clean, OpenDecoderAdapter):
        return RememberedBlocks()
    return RememberedStages() if issubclass(clean, OpenLayerAdapter) else None


def _own_names(adapter: Any, clean: type) -> frozenset[str]:
    """Everything that an adapter has of its own."""
    kinds = type(adapter).__mro__
    names: set[str] = set(vars(adapter))
    return frozenset(names.union(*(vars(kind) for kind in kinds[: kinds.index(clean)])))


def _is_note(name: str, own: Any, clean: type) -> bool:
    """Whether this is a value that the clean class does not know, so that none of its methods reads it."""
    return isinstance(own, str | int | tuple) and not name.startswith("__") and not hasattr(clean, name)


def _fewer(name: str, own: tuple[Any, ...], clean: type) -> bool:
    return set(own) <= set(getattr(clean, name))


def _known(playthrough: Playthrough, clean: CleanPlay) -> Iterator[int]:
    """The steps that show bit for bit what the clean class showed, and are judged by nothing else."""
    apart = False
    pairs = zip(playthrough.records, _seen(playthrough), clean.seen, strict=False)
    for record, mine, other in pairs:
        if mine != other:
            apart = True
        elif not apart or not any(isinstance(e, Same | Custom) for e in record.operation.expect):
            yield record.index


def _noting(clean: type, form: Mapping[str, Any], called: set[str]) -> type:
    """The clean class, noting every method that is called or looked for, and whether one raised."""

    def noting(name: str, method: FunctionType) -> Callable[..., Any]:
        @wraps(method)
        def noted(*given: Any, **named: Any) -> Any:
            called.add(name)
            try:
                return method(*given, **named)
            except BaseException:
                called.add(REFUSED)
                raise

        return noted

    def missing(_: Any, name: str) -> Any:
        called.add(name)
        raise AttributeError(name)

    own = {
        name: noting(name, method)
        for kind in reversed(clean.__mro__)
        for name, method in vars(kind).items()
        if isinstance(method, FunctionType) and not name.startswith("__")
    }
    return type(f"Noting{clean.__name__}", (clean,), {**own, **form, "__getattr__": missing})


def _seen(playthrough: Playthrough) -> Iterator[Seen]:
    """Each step as values. Addresses are told apart by when each was seen first."""
    places: dict[Any, int] = {}
    views: dict[int, Seen] = {}
    for record in playthrough.records:
        shown = tuple(
            (name, views.get(id(view)) or views.setdefault(id(view), _view(view, places)))
            for side in (record.before, record.after)
            for name, view in side.items()
        )
        yield _outcome(record.outcome), len(record.before), shown, record.changed_inputs


def _outcome(outcome: Outcome) -> Seen:
    if not isinstance(outcome, Returned):
        return (outcome,)
    fields = tuple((name, _array(value)) for name, value in outcome.fields.items())
    return fields, outcome.length, outcome.work, outcome.aliases


def _view(view: CacheView, places: dict[Any, int]) -> Seen:
    storage: Seen = tuple(
        (places.setdefault(b.address, len(places)), b.digest, b.elements, b.nbytes, _array(b.data))
        for b in view.storage or ()
    )
    shown = _array(view.keys), _array(view.values), view.storage is None, storage
    return view.length, view.capacity, *shown, dict(view.extra)


def _array(given: Any) -> Any:
    return given if given is None else (given.shape, given.dtype, given.tobytes())
