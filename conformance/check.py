"""One run: suite, player, judge, verdict, report."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conformance.adapter import Declaration
from conformance.adapters.naming import build, is_embedded, resolve
from conformance.contract import CONTRACT_VERSION, requirement_ids
from conformance.errors import AdapterError, UsageError
from conformance.judge import judge
from conformance.observed import Observed
from conformance.player import play
from conformance.report.environment import environment
from conformance.report.model import Report
from conformance.suite import digest, traces
from conformance.trace.model import Trace
from conformance.verdict import EXIT_ERROR, Verdict, default_profiles, verdict

Progress = Callable[[int, int, str], None]
"""Called with traces done, traces planned, and the id of the trace that comes next."""


def check(
    adapter: Any,
    profile: str | Sequence[str] | None = None,
    *,
    keyword: str = "",
    progress: Progress | None = None,
    only: Iterable[Trace] | None = None,
    seed: int | None = None,
    diagnose: bool = True,
) -> Report:
    """Hold an adapter against the contract.

    adapter: an adapter object, a factory that makes one, or a name (`pkg.mod:factory`, a built-in name,
    `cmd:./driver`). profile: one name, several, or None for the default of the declaration. keyword: play
    only traces whose id or requirements contain it; what is left out stands as not run, so the verdict is
    at best incomplete. only: these traces instead of the suite. seed: from which the twins of the golden
    traces are drawn; None draws one, and the report tells it. diagnose: where something fails, look for the
    known faults that show exactly what was observed.

    Returns a Report whatever the adapter does. Raises UsageError for an unknown profile or adapter name.
    """
    begun = time.perf_counter()
    name = adapter if isinstance(adapter, str) else _name_of(adapter)
    try:
        implementation = resolve(adapter) if isinstance(adapter, str) else build(adapter, name)
        declaration = declared(implementation)
    except AdapterError as error:
        return _broken(name, error, time.perf_counter() - begun)
    wanted = _profiles(profile, declaration, name)
    # An unknown profile is refused before anything is played.
    counted = requirement_ids(wanted, declaration.levels[0])
    seed = secrets.randbelow(10**6) if seed is None else seed
    suite = traces(declaration, seed=seed) if only is None else only
    planned = [trace for trace in suite if _selected(trace, keyword)]
    try:
        observed, adapter_seconds = _observe(implementation, declaration, planned, progress)
    finally:
        if implementation is not adapter:
            getattr(implementation, "close_process", int)()
    checks = tuple(check for seen in observed for check in seen.checks)
    return Report(
        adapter=name,
        declaration=declaration,
        verdict=verdict(wanted, declaration, checks),
        checks=checks,
        planned=len(planned),
        reported=len(observed),
        contract_version=CONTRACT_VERSION,
        digest=digest(planned),
        environment=environment(),
        seeds={"twins": seed},
        seconds=time.perf_counter() - begun,
        adapter_seconds=adapter_seconds,
        keyword=keyword,
        traces={seen.playthrough.trace.id: seen.playthrough.trace for seen in observed if seen.failed()},
        looks_like=_likeness(observed, declaration, counted) if diagnose else {},
    )


def _observe(
    implementation: Any, declaration: Declaration, planned: list[Trace], progress: Progress | None
) -> tuple[list[Observed], float]:
    """Every trace played and judged, and the seconds that playing took."""
    observed, seconds = [], 0.0
    for done, trace in enumerate(planned):
        if progress is not None:
            progress(done, len(planned), trace.id)
        started = time.perf_counter()
        playthrough = play(trace, implementation)
        seconds += time.perf_counter() - started
        observed.append(Observed(playthrough, tuple(judge(playthrough, declaration))))
    if progress is not None:
        progress(len(planned), len(planned), "")
    return observed, seconds


def _likeness(
    observed: list[Observed], declaration: Declaration, counted: frozenset[str]
) -> dict[tuple[str, int], tuple[str, ...]]:
    """What each finding looks like: one explanation for the whole run, as if there were one fault."""
    if not any(seen.breaks_a_rule(counted) for seen in observed):
        return {}
    from conformance.diagnosis import explain  # noqa: PLC0415 - loads every killer, on a failing run only

    lines = explain(observed, declaration, counted)
    return {(c.trace, c.step): lines for seen in observed for c in seen.findings(counted)}


def declared(implementation: Any) -> Declaration:
    """The declaration of an adapter. Raises AdapterError where it has none."""
    found = getattr(implementation, "declaration", None)
    if not isinstance(found, Declaration):
        raise AdapterError(
            f"{type(implementation).__name__} has no 'declaration' of type conformance.Declaration "
            f"(found {type(found).__name__}); an adapter says with it what may be asked of it"
        )
    return found


def _name_of(adapter: Any) -> str:
    """How a report names what it was given, without asking a program at the end of a pipe anything."""
    if isinstance(adapter, type) or not hasattr(type(adapter), "append"):
        return f"{getattr(adapter, '__module__', '?')}:{getattr(adapter, '__qualname__', repr(adapter))}"
    own = vars(adapter).get("declaration")
    return own.name if isinstance(own, Declaration) else type(adapter).__name__


def _profiles(profile: str | Sequence[str] | None, declaration: Declaration, name: str) -> tuple[str, ...]:
    if profile is None:
        return default_profiles(declaration, embedded=is_embedded(name))
    wanted = (profile,) if isinstance(profile, str) else tuple(profile)
    if not wanted:
        raise UsageError("no profile was named; leave `profile` out for the default")
    return wanted


def _selected(trace: Trace, keyword: str) -> bool:
    if not keyword:
        return True
    text = keyword.lower()
    return text in trace.id.lower() or any(text in name.lower() for name in trace.requirements())


def _broken(name: str, error: AdapterError, seconds: float) -> Report:
    return Report(
        adapter=name,
        declaration=None,
        verdict=Verdict("incomplete", EXIT_ERROR, ()),
        contract_version=CONTRACT_VERSION,
        environment=environment(),
        seconds=seconds,
        broken=str(error),
        broken_detail="\n".join(getattr(error, "__notes__", ())),
    )
