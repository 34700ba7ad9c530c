"""What is said of a finding: where it is, what changed, what it looks like, what the bounds allow."""

from __future__ import annotations

import numpy as np

from conformance import Observation, Rejected, check
from conformance.adapter import Precision
from conformance.judge import compare
from conformance.report.text import report_text
from conformance.suite import traces
from tests.library_likes import Growing, GrowingLayer, declaring

# -- where a finding is


def test_the_place_in_the_output_of_an_attention_names_its_head() -> None:
    wanted, seen = np.zeros((2, 3, 1, 4)), np.zeros((2, 3, 1, 4))
    seen[1, 2, 0, 3] = 1.0
    found = compare.worst("output", seen, wanted, 1e-12, first_row=5)
    assert (found.lane, found.head, found.position) == (1, 2, 5)
    found = compare.worst("output", seen[:, :, 0], wanted[:, :, 0], 1e-12, first_row=5)
    assert (found.lane, found.head, found.position) == (1, None, 7)


# -- arrays that change their dtype


class Retyping(Growing):
    """Its rows come back in another dtype once there are `after` of them."""

    after = 0

    def observe(self, cache):
        dtype = np.float32 if cache["keys"].shape[2] >= self.after else np.float64
        return Observation(
            cache["keys"].shape[2], None, *(cache[n].astype(dtype) for n in ("keys", "values"))
        )


def test_rows_of_another_dtype_are_told_and_break_nothing() -> None:
    adapter = declaring(type("Late", (Retyping,), {"after": 3}))
    only = [trace for trace in traces(adapter.declaration) if trace.id in ("append-five", "two-caches")]
    report = check(adapter, only=only, diagnose=False)
    told = {c.message for c in report.checks if c.requirement == "STORE-EARLIER-ROWS" and c.status == "fail"}
    assert any("float32 now, and were float64" in message for message in told)


def test_rows_that_are_equal_numbers_of_another_dtype_differ_in_every_bit() -> None:
    rows = np.ones((1, 1, 2, 3))
    assert not compare.same_bits(rows, rows.astype(np.float32))
    found = compare.first_bit_difference("keys", rows.astype(np.float32), rows)
    assert (found.index, found.difference, found.share) == ((0, 0, 0, 0), 0.0, np.inf)
    assert compare.same_bits(rows[:, :, :0], rows[:, :, :0].astype(np.float32))


# -- what a failure looks like, and what a call leaves behind that raises


class FixedSingle(Growing):
    """float32 inside, whatever it is fed with, and a truncation that is ignored."""

    def append(self, cache, query, key, value):
        single = super().append(cache, *(part.astype(np.float32) for part in (query, key, value)))
        return single.astype(np.float64)

    def truncate(self, cache, length):
        if not 0 <= length <= cache["keys"].shape[2]:
            raise Rejected("invalid_length")


def test_a_known_fault_is_recognised_in_a_coarser_precision() -> None:
    claims = {"features": frozenset({"truncate"}), "precision": Precision.of("float32")}
    adapter = declaring(FixedSingle, **claims)
    only = [t for t in traces(adapter.declaration) if t.id.startswith("truncate-to")]
    lines = {line for c in check(adapter, "rollback", only=only).looks_like.values() for line in c}
    assert any("truncate" in line and "does nothing" in line for line in lines), lines


class JoinsFirst(GrowingLayer):
    """Keeps the new rows before it finds that their form is wrong."""

    def append(self, layer, cache, rows):
        if rows.ndim != 3:
            cache["keys"] = np.concatenate([cache["keys"], cache["keys"][:, :, :0], np.ones((2, 2, 2, 4))], 2)
            cache["values"] = np.concatenate([cache["values"], np.ones((2, 2, 2, 4))], 2)
            raise RuntimeError("tensors must have the same number of dimensions")
        return super().append(layer, cache, rows)


def test_what_a_call_leaves_behind_that_raises_is_told_with_what_it_raised() -> None:
    adapter = declaring(JoinsFirst, pairings=("half",))
    only = [t for t in traces(adapter.declaration) if t.id.startswith("refused-rank")]
    told = {c.message for c in check(adapter, only=only, diagnose=False).checks if c.status == "fail"}
    assert any(m.startswith("length went from 0 to 2; the call raised RuntimeError") for m in told)


# -- what a verdict is worth


def test_a_report_says_what_rounding_its_bounds_allow() -> None:
    coarse = Precision(arithmetic="bfloat16", angles="float32")
    only = [t for t in traces(Growing.declaration) if t.id == "append-five"]
    told = report_text(check(declaring(Growing, precision=coarse), only=only))
    assert "fed with float64; as declared the bounds allow bfloat16 in arithmetic; float32 in angles" in told
    assert "rounding" not in report_text(check(declaring(Growing), only=only))
