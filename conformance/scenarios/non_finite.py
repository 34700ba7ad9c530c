"""Rows that are not finite, and finite rows that overflow in one stage alone.

Every overflow exceeds the range by at least 2^100 in every order of summation, but for the rotation, where
two finite products whose sum is out of range leave no order to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios.material import AttentionRows, LayerRows, Rows, StoreRows, appended, material
from conformance.scenarios.refusals import CAPACITY, alike, twins
from conformance.scenarios.storage import trace, unchanged
from conformance.trace.expect import Array, Expectation, Refused, Same
from conformance.trace.model import Operation, Trace

HUGE, LARGE, TINY = 2.0**1000, 2.0**140, 2.0**-140
PAIR = 1.6e308
SCORE = 2.0**600


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels layer and attention; float64 alone has this range."""
    if declaration.dtypes[0] != "float64":
        return
    rows = material(declaration)
    if isinstance(rows, StoreRows):
        return
    yield from _not_finite(rows)
    if isinstance(rows, LayerRows):
        yield from _overflows(rows)
    else:
        yield from _attention_scores(rows)


def _not_finite(rows: Rows) -> Iterator[Trace]:
    for name, bad in (("nan", np.nan), ("infinite", np.inf), ("minus-infinite", -np.inf)):
        for held in (0, 2):
            for field, given in rows.inputs(held, held + 1).items():
                poisoned = given.copy()
                poisoned[(rows.lanes - 1, *(0,) * (given.ndim - 2), 1)] = bad
                inputs = {**rows.inputs(held, held + 1), field: poisoned}
                steps = [appended(rows, cache, n, n + 1) for n in range(held) for cache in ("main", "twin")]
                steps.append(
                    _refused("REJECT-NON-FINITE-INPUT", inputs, f"{name} in {field}, {held} rows held")
                )
                for n in (held, held + 1):
                    steps.append(appended(rows, "twin", n, n + 1, label=f"twin goes on with row {n}"))
                    steps.append(
                        appended(rows, "main", n, n + 1, extra=alike(rows, f"twin goes on with row {n}"))
                    )
                yield trace(
                    rows, f"{name}-{field}-{held}", f"{name} in {field} with {held} rows held", tuple(steps),
                    caches=twins(rows),
                )  # fmt: skip


def _refused(requirement: str, inputs: dict[str, Array], label: str) -> Operation:
    return Operation(
        op="append", target="main", inputs=inputs, label=label,
        expect=(Refused(requirement, ("non_finite",)), unchanged("main")),
    )  # fmt: skip


def _same_as_twin(label: str) -> tuple[Expectation, ...]:
    return tuple(Same("ATOMIC-FUTURE", name, label) for name in ("output", "keys", "values"))


def _play(rows: Rows, names: tuple[str, str], requirement: str, held: int, poison: dict[str, Array]) -> Trace:
    """Lawful rows into both caches, the poisoned one into main, lawful ones again. names: id and about."""
    name, about = names
    steps = [
        appended(rows, cache, n, n + 1, label=f"{cache} row {n}", quiet=True)
        for n in range(held)
        for cache in ("main", "twin")
    ]
    steps.append(_refused(requirement, poison, about))
    for n in range(held, min(held + 2, CAPACITY)):
        steps.append(appended(rows, "twin", n, n + 1, label=f"twin row {n}", quiet=True))
        steps.append(
            appended(
                rows,
                "main",
                n,
                n + 1,
                label=f"main row {n}",
                quiet=True,
                extra=_same_as_twin(f"twin row {n}"),
            )
        )
    return trace(rows, f"{name}-{held}", f"{about}, {held} rows held", tuple(steps), caches=twins(rows))


def _overflows(rows: LayerRows) -> Iterator[Trace]:
    """One stage a trace. The lawful rows are those of the material with feature 0 at zero."""
    width = rows.config.model_width
    lawful = rows.rows.copy()
    lawful[..., 0] = 0.0
    poison = np.zeros((rows.lanes, 1, width))
    poison[rows.lanes - 1, 0, 0] = LARGE
    unit = np.zeros((rows.lanes, 1, width))
    unit[rows.lanes - 1, 0, 0] = 1.0
    plain = rows.parameters

    def weights(**changed: Array) -> LayerRows:
        return replace(rows, parameters=replace(plain, **changed), rows=lawful)

    def first_row(matrix: Array, value: float, *, rest: float = 1.0) -> Array:
        """The matrix times `rest`, with `value` in the row that only the poisoned feature reads."""
        made = matrix * rest
        made[0] = value
        return made

    quiet = {name: first_row(getattr(plain, name), TINY) for name in ("query", "key", "value")}
    for name in ("query", "key", "value"):
        own = weights(**{**quiet, name: first_row(getattr(plain, name), HUGE)})
        for held in (0, 2):
            yield _play(
                own, (f"overflow-{name}", f"a finite row overflows in the {name} projection alone"),
                f"REJECT-NON-FINITE-{name.upper()}", held, {"rows": poison},
            )  # fmt: skip
    yield from _rotations(weights, quiet, unit)
    yield from _scores(weights, quiet, unit)
    output = weights(
        query=np.zeros_like(plain.query), key=quiet["key"], value=first_row(plain.value, 1.0),
        output=np.full_like(plain.output, HUGE),
    )  # fmt: skip
    for held in (0, 2):
        yield _play(
            output, ("overflow-output", "a finite row overflows in the output projection alone"),
            "REJECT-NON-FINITE-OUTPUT", held, {"rows": poison},
        )  # fmt: skip


def _rotations(weights: object, quiet: dict[str, Array], unit: Array) -> Iterator[Trace]:
    """At position 2 the pair (1.6e308, 1.6e308) turns to 1.6e308 * (cos 2 - sin 2), beyond the range."""
    for name in ("key", "query"):
        made = quiet[name].copy()
        made[0] = 0.0
        made[0, :2] = PAIR
        other = {"key": "query", "query": "key"}[name]
        still = quiet[other].copy()
        still[0] = 0.0
        rows: LayerRows = weights(**{**quiet, name: made, other: still})  # type: ignore[operator]
        yield _play(
            rows, (f"overflow-rotated-{name}", f"a finite {name} overflows in the rotation alone"),
            "REJECT-NON-FINITE-ROTATION", 2, {"rows": unit},
        )  # fmt: skip


def _scores(weights: object, quiet: dict[str, Array], unit: Array) -> Iterator[Trace]:
    """A query and a key of 2^600 along the same pair: the score of the new row with itself is 2^1199."""
    for name, sign, requirement in (
        ("plus", 1.0, "REJECT-NON-FINITE-SCORE"),
        ("minus", -1.0, "REJECT-NON-FINITE-SCORE-MINUS"),
    ):
        query, key = quiet["query"].copy(), quiet["key"].copy()
        query[0], key[0] = 0.0, 0.0
        query[0, 0], key[0, 0] = sign * SCORE, SCORE
        # Lawful rows see each other, but the query of the poisoned row must meet no large key but its own.
        key[1:, :2] = 0.0
        rows: LayerRows = weights(**{**quiet, "query": query, "key": key})  # type: ignore[operator]
        for held in (0, 2):
            yield _play(
                rows, (f"overflow-score-{name}", f"a finite row makes a score {name} infinity"),
                requirement, held, {"rows": unit},
            )  # fmt: skip


def _attention_scores(rows: AttentionRows) -> Iterator[Trace]:
    """The same at level attention, where query and key are handed in."""
    for name, sign, requirement in (
        ("plus", 1.0, "REJECT-NON-FINITE-SCORE"),
        ("minus", -1.0, "REJECT-NON-FINITE-SCORE-MINUS"),
    ):
        key = rows.key.copy()
        key[..., 0] = 0.0
        own = replace(rows, key=key)
        for held in (0, 2):
            inputs = {field: given.copy() for field, given in own.inputs(held, held + 1).items()}
            inputs["query"][rows.lanes - 1, 0, 0, 0] = sign * SCORE
            inputs["key"][rows.lanes - 1, 0, 0, 0] = SCORE
            yield _play(
                own, (f"overflow-score-{name}", f"a finite row makes a score {name} infinity"),
                requirement, held, inputs,
            )  # fmt: skip
