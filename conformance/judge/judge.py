"""The one judge: a playthrough in, checks out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.contract.fields import at_level
from conformance.dtypes import in_dtype
from conformance.judge import frame, rules
from conformance.judge.custom import RULES
from conformance.judge.findings import Check, Status
from conformance.judge.kinds import ASTRAY, FRAME, kind_of
from conformance.judge.rules import PASSED, Sight
from conformance.player.records import Errored, Playthrough, RefusedCall
from conformance.trace.expect import (
    Accepted,
    Apart,
    Close,
    Custom,
    Declares,
    Expectation,
    InputsKept,
    Length,
    Refused,
    Same,
    Shapes,
    Unchanged,
)
from conformance.trace.model import named_by

_JUDGES: dict[type[Any], Callable[[Sight, Any], Iterator[Check]]] = {
    Close: rules.close,
    Same: rules.same,
    Length: rules.length,
    Shapes: rules.shapes,
    Declares: rules.declares,
    Refused: rules.refused,
    Accepted: rules.accepted,
    Unchanged: rules.unchanged,
    InputsKept: rules.inputs_kept,
    Apart: rules.apart,
}


def judge(
    playthrough: Playthrough,
    declaration: Declaration,
    *,
    findings_only: bool = False,
    measured: bool = True,
    known: Container[int] = (),
) -> list[Check]:
    """Every check of every step that was played, in order; with `findings_only` those that did not pass.

    measured: say of what passes how much of its bound it uses. known: steps, by their index, of which it is
    known that they pass.

    A step that broke, or was refused although it is lawful, is filed under every requirement that the
    step was to show; the steps behind it are not judged, so their requirements stay as they are.
    """
    if playthrough.broken is not None:
        return _broken(playthrough)
    declaration = in_dtype(declaration, playthrough.trace.dtype)
    checks: list[Check] = []
    # What an implementation shows may overflow in a difference; that is a finding, not a warning.
    with np.errstate(all="ignore"):
        for record in playthrough.records:
            if record.index in known:
                continue
            sight = Sight(playthrough, record, declaration, findings_only, measured and not findings_only)
            astray = [_told(check, _kind_astray(sight, check.requirement)) for check in _astray(sight)]
            checks += astray or (c for c in _step(sight) if c is not PASSED)
    return checks


def _told(check: Check, kind: str) -> Check:
    """The check with its kind, if it found something."""
    return replace(check, kind=kind) if check.status in ("fail", "error") else check


def _kind_astray(sight: Sight, requirement: str) -> str:
    """The one look that files this step under the requirement, if it is only one."""
    kinds = {kind_of(e) for e in sight.record.operation.expect if requirement in named_by(e)}
    return kinds.pop() if len(kinds) == 1 else ASTRAY


def _step(sight: Sight) -> Iterator[Check]:
    for expectation in sight.record.operation.expect:
        for check in _expectation(sight, expectation):
            yield check if check.status == "pass" else _told(check, kind_of(expectation))
    for check in frame_checks(sight):
        yield check if check.status == "pass" else _told(check, FRAME)


def frame_checks(sight: Sight) -> Iterator[Check]:
    """What every call of this operation must leave alone, whatever the trace expects."""
    if sight.record.operation.op == "append":
        yield from frame.appended(sight)
    elif sight.record.operation.op in ("prefill", "decode"):
        yield from frame.decoded(sight)


def _expectation(sight: Sight, expectation: Expectation) -> Iterator[Check]:
    if isinstance(expectation, Custom):
        return RULES[expectation.rule](sight, expectation)
    return _JUDGES[type(expectation)](sight, expectation)


def _broken(playthrough: Playthrough) -> list[Check]:
    """The layers or caches could not be built: nothing of the trace could be seen."""
    broken = playthrough.broken
    if isinstance(broken, RefusedCall):
        text, detail = f"refused as {broken.kind}: {broken.message}", ""
    else:
        text, detail = (broken.message, broken.detail) if broken is not None else ("", "")
    status: Status = "unobserved" if playthrough.trace.optional else "error"
    return [
        Check(name, status, playthrough.trace.id, -1, "build", f"could not be built: {text}", None, detail)
        for name in playthrough.trace.requirements()
    ]


def _astray(sight: Sight) -> list[Check]:
    """Checks of a step that never showed what it was to show; empty where it did."""
    record, expects = sight.record, sight.record.operation.expect
    if isinstance(record.outcome, RefusedCall) and not (sight.asked_refusal or sight.may_refuse):
        text = f"a lawful call was refused as {record.outcome.kind}: {record.outcome.message}"
        return [sight.check(name, "fail", text) for name in _shown_by(sight)]
    if not isinstance(record.outcome, Errored) or (sight.asked_refusal and record.after):
        return []
    text, detail = f"{record.operation.op} raised {record.outcome.message}", record.outcome.detail
    errors = [
        Check(name, "error", sight.playthrough.trace.id, record.index, record.place, text, None, detail)
        for name in _shown_by(sight)
    ]
    if sight.may_refuse and record.after:
        errors += [c for e in expects if isinstance(e, Unchanged) for c in rules.unchanged(sight, e)]
    return errors


def _shown_by(sight: Sight) -> list[str]:
    """The requirements that a step was to show; where there are none, what it was to leave alone."""
    expects = sight.record.operation.expect
    shown = [name for e in expects if not isinstance(e, Unchanged) for name in named_by(e)]
    everything = [name for e in expects for name in named_by(e)]
    length = at_level("STORE-LENGTH", sight.playthrough.trace.level)
    return list(dict.fromkeys(shown or everything or [length]))
