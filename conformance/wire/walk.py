"""`wire try`: a driver is walked through the protocol, and told after every step what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.errors import AdapterError
from conformance.rejections import Rejected
from conformance.values import Observation, Step
from conformance.wire.client import WireAdapter
from conformance.wire.errors import DriverError, GoneError, LossyPipeError
from conformance.wire.subjects import LANES, Subject, numbers, subject
from conformance.wire.text import brief

EXIT_OK, EXIT_WRONG, EXIT_SILENT = 0, 1, 3
_SHOWN = 600
Judge = Callable[[Any], str]


def walk(adapter: WireAdapter, say: Callable[[str], None]) -> int:
    """Walk a driver through every step that its declaration promises; say what was sent, what came, and
    what to do. Returns 0 when all went well, 1 when a step was wrong, 3 when it could not be greeted.
    """
    pace = Pace(adapter, say)
    declaration = pace.step("hello and echo", lambda: adapter.declaration, _no_refusal, must=True)
    if declaration is None:
        return EXIT_SILENT
    levels, features = ", ".join(declaration.levels), ", ".join(sorted(declaration.features)) or "none"
    say(f"  it is {declaration.name!r}, levels {levels}, features {features}")
    for level in declaration.levels:
        say(f"-- level {level}")
        pace.page = f'"Level `{level}`", of a feature under "Features"'
        _level(pace, subject(level, adapter, declaration), declaration)
    pace.step("a request that does not exist", lambda: _nonsense(adapter), _is("an error"))
    pace.step("bye", adapter.close_process, str)
    skipped = f", {pace.skipped} not tried" if pace.skipped else ""
    ending = "" if pace.wrong else "; next: kv-conformance check, which judges the numbers as well"
    say(f"{pace.good} steps ok, {pace.wrong} wrong{skipped}{ending}")
    return EXIT_WRONG if pace.wrong else EXIT_OK


class Pace:
    """Takes one step after the other, shows it, and counts how it went."""

    def __init__(self, adapter: WireAdapter, say: Callable[[str], None]) -> None:
        self.adapter, self._say = adapter, say
        self.good = self.wrong = self.skipped = 0
        self.page = '"Hello" and "Echo"'

    def step(
        self, title: str, call: Callable[[], Any], judge: Judge, *, must: bool = False, advice: str = ""
    ) -> Any:
        """The value of `call` where `judge` finds nothing wrong with it, else None.

        A refusal is a value; `must` says that nothing further can be tried without this step; `advice` is
        given where the driver answers with an error.
        """
        problem, value = "", None
        self.adapter.take_exchanges()
        try:
            value = call()
        except Rejected as refusal:
            value = refusal
        except GoneError as error:
            self._say(f"{title}\n  not tried: {error.problem}")
            self.skipped += 1
            return None
        except AdapterError as error:
            problem = _with_advice(error, advice or f"see `kv-conformance wire page`, under {self.page}")
        problem = problem or judge(value)
        self._say(title)
        for pair in self.adapter.take_exchanges():
            for mark, line in zip("><", pair, strict=True):
                self._say(f"  {mark} {brief(line, _SHOWN)}")
        self._say(f"  WRONG: {problem}" if problem else "  ok")
        self.wrong += bool(problem)
        self.good += not problem
        if problem and must:
            self._say("  this has to be right before anything else of it can be tried")
        return None if problem else value


def _level(pace: Pace, case: Subject, declaration: Declaration) -> None:
    adapter = pace.adapter
    made = pace.step("build", case.make, _no_refusal, must=True)
    cache = (
        None if made is None else pace.step("build a cache", lambda: case.cache(made), _no_refusal, must=True)
    )
    if cache is None:
        return

    def look() -> Any:
        return adapter.observe(cache, *case.slot)

    pace.step("observe: nothing in it", look, _of_length(0, declaration))
    pace.step("append", lambda: case.append(made, cache, 0), _answered(case.answer, declaration))
    first = pace.step("observe: what was appended", look, _of_length(case.rows, declaration))
    if first is None:
        return
    if case.kinds:
        asked = f"a call to be refused as {' or '.join(case.kinds)}"
        pace.step(
            asked, lambda: case.refused(made, cache), _refused(case.kinds), advice=_answer(case.kinds[0])
        )
    if case.answer is not None:
        pace.step("observe: as before the refusal", look, _same_as(first))
    _reading_features(pace, case, made, cache, declaration)
    pace.step("reset", lambda: adapter.reset(cache), _no_refusal)
    pace.step("observe: nothing in it again", look, _of_length(0, declaration))
    pace.step(
        "append after the reset", lambda: case.append(made, cache, 0), _answered(case.answer, declaration)
    )
    _writing_features(pace, case, made, cache, declaration)
    pace.step("drop", lambda: adapter.ask_raw("drop", {"handles": [cache.number]}), _is("null"))


def _reading_features(pace: Pace, case: Subject, made: Any, cache: Any, declaration: Declaration) -> None:
    adapter, features = pace.adapter, declaration.features
    if "full_prefix" in features and case.prefix is not None:
        prefix = case.prefix
        pace.step("full_prefix", lambda: prefix(made), _shaped(case.prefix_shape))
    if "snapshot" in features:
        pace.step("snapshot", lambda: adapter.snapshot(cache, *case.slot), _pair_of(case.rows))
    if "fork" in features:
        pace.step(
            "fork, and observe it",
            lambda: adapter.observe(adapter.fork(cache), *case.slot),
            _of_length(case.rows, declaration),
        )
    if "reorder" in features:
        pace.step("reorder", lambda: adapter.reorder(cache, range(LANES)), _no_refusal)
    if "poison" in features:
        pace.step("poison", lambda: adapter.poison(cache, float("nan")), _no_refusal)
    if "truncate" in features:
        pace.step("truncate", lambda: adapter.truncate(cache, 0), _no_refusal)
    if "overwrite_row" in adapter.offers:
        pace.step("overwrite_row", lambda: adapter.overwrite_row(cache, 1, 0, numbers(2)), _no_refusal)


def _writing_features(pace: Pace, case: Subject, made: Any, cache: Any, declaration: Declaration) -> None:
    """Features after which the cache no longer belongs to its layer come last."""
    adapter, features = pace.adapter, declaration.features
    if case.prefix is None:
        return
    if "rewire" in features:
        other = pace.step("rewire", lambda: adapter.rewire(made, fresh=(case.parameter,)), _no_refusal)
        if other is not None and case.parameter == "key":
            pace.step(
                "append with the rewired layer",
                lambda: case.append(other, cache, 1),
                _refused(("cache_layer_mismatch",), also=Step),
            )
    if "update_parameters" in features:
        shape = (4, 4) if case.parameter == "key" else (4,)
        if case.parameter != "key":
            pace.step("close", lambda: adapter.close(cache), _no_refusal)
        pace.step(
            "update_parameters",
            lambda: adapter.update_parameters(made, {case.parameter: numbers(*shape)}),
            _no_refusal,
        )
        pace.step(
            "append with updated parameters",
            lambda: case.append(made, cache, 1),
            _refused(("cache_layer_revision_mismatch", "stale_parameters", "session_closed"), also=Step),
        )


def _nonsense(adapter: WireAdapter) -> str:
    try:
        adapter.ask_raw("nonsense", {})
    except DriverError:
        return "an error"
    return "a result"


def _answer(kind: str) -> str:
    return f'answer {{"seq": n, "rejected": {{"kind": "{kind}"}}}}'


def _with_advice(error: AdapterError, advice: str) -> str:
    if isinstance(error, LossyPipeError):
        return (
            f"{error}\n  do: read with a parser that rounds correctly, write 17 significant digits, or bits"
        )
    if isinstance(error, DriverError):
        return f"{error}\n  do: {advice}"
    return str(error)


def _no_refusal(value: Any) -> str:
    return f"it was refused as {value.kind}: {value.message}" if isinstance(value, Rejected) else ""


def _is(wanted: str) -> Judge:
    def judge(value: Any) -> str:
        found = "null" if value in (None, {}) else value
        return "" if found == wanted else f"{wanted} was wanted, {found!r} came"

    return judge


def _refused(kinds: tuple[str, ...], *, also: type | None = None) -> Judge:
    def judge(value: Any) -> str:
        if isinstance(value, Rejected):
            return "" if value.kind in kinds else f"refused as {value.kind}, {' or '.join(kinds)} was wanted"
        if also is not None and isinstance(value, also):
            return ""
        return f"it was accepted; {_answer(kinds[0])}"

    return judge


def _shaped(shape: tuple[int, ...]) -> Judge:
    def judge(value: Any) -> str:
        if isinstance(value, Rejected):
            return _no_refusal(value)
        found = np.shape(value)
        if found != shape:
            return f"shape {list(found)} came, {list(shape)} was wanted"
        return "" if np.isfinite(value).all() else "it holds numbers that are not finite"

    return judge


def _answered(shape: tuple[int, ...] | None, declaration: Declaration) -> Judge:
    def judge(value: Any) -> str:
        if shape is None or isinstance(value, Rejected):
            return _no_refusal(value)
        problem = _shaped(shape)(value.output if isinstance(value, Step) else value)
        if problem or not isinstance(value, Step):
            return problem
        if "work" in declaration.features and value.work is None:
            return "the feature work is declared, the step carries no work"
        if "evidence" in declaration.features and value.weights is None:
            return "the feature evidence is declared, the step carries no weights"
        return ""

    return judge


def _of_length(length: int, declaration: Declaration) -> Judge:
    def judge(seen: Any) -> str:
        if not isinstance(seen, Observation):
            return _no_refusal(seen)
        if seen.length != length:
            return f"length {seen.length} came, {length} was wanted"
        if "storage" in declaration.features and not seen.storage:
            return "the feature storage is declared, the observation carries no storage"
        if length and seen.keys is None and declaration.keys != "unreadable":
            return 'the observation carries no keys; send them, or declare "keys": "unreadable"'
        if length and seen.keys is not None and (seen.keys.ndim != 4 or seen.keys.shape[2] != length):
            return f"keys {list(seen.keys.shape)} came, [lanes, key/value heads, {length}, width] was wanted"
        return ""

    return judge


def _same_as(first: Observation) -> Judge:
    def judge(seen: Any) -> str:
        if not isinstance(seen, Observation):
            return _no_refusal(seen)
        if seen.length != first.length:
            return f"the length went from {first.length} to {seen.length} although the call was refused"
        for name in ("keys", "values"):
            before, after = getattr(first, name), getattr(seen, name)
            if before is not None and (after is None or before.tobytes() != after.tobytes()):
                return f"the {name} have changed although the call was refused"
        tokens = [[_contents(token) for token in o.storage or ()] for o in (first, seen)]
        return "" if tokens[0] == tokens[1] else "the storage has changed although the call was refused"

    return judge


def _contents(token: Any) -> tuple[str, Any]:
    """Where a buffer is and what it holds: its bytes, or their digest where only that is sent."""
    return token.address, token.digest if token.data is None else token.data.tobytes()


def _pair_of(length: int) -> Judge:
    def judge(value: Any) -> str:
        if isinstance(value, Rejected):
            return _no_refusal(value)
        found = [list(array.shape) for array in value]
        fits = all(len(shape) == 4 and shape[2] == length for shape in found)
        return "" if fits else f"shapes {found} came, [lanes, key/value heads, {length}, width] was wanted"

    return judge
