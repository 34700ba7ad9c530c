"""Rules that no black box can see: each with the reason and the tests of ours that cover it.

They are in no profile. The tests run on the embedded NumPy layer.
"""

from __future__ import annotations

from conformance.contract.model import Requirement

ONE_STEP = "System 1, One step"
STATE = "System 1, State"
PREPARE = "System 1, Prepare, then commit"
CALCULATION = "System 1, Rejections, during the calculation"
INSIDE = "tests/test_reference_layer_inside.py"
PREPARED = "tests/test_reference_layer_prepare.py"


def _inside(name: str, sentence: str, reason: str, tests: tuple[str, ...], source: str) -> Requirement:
    return Requirement(
        id=f"INSIDE-{name}",
        sentence=sentence,
        levels=("layer",),
        profiles=(),
        source=source,
        untestable=reason,
        covered_by=", ".join(tests),
    )


REQUIREMENTS = (
    _inside(
        "RAW-APPEND",
        "The raw append MUST NOT be reachable from outside.",
        "what a public interface leaves out cannot be called to show that it is left out",
        (f"{INSIDE}::test_the_raw_append_is_not_reachable_from_outside",),
        STATE,
    ),
    _inside(
        "ALLOCATION-ORDER",
        "Keys MUST be allocated before values.",
        "the order of two allocations leaves no trace in what they hold",
        ("tests/test_reference_layer_construction.py::test_keys_are_allocated_before_values",),
        STATE,
    ),
    _inside(
        "EQUALITY",
        "Two caches MUST be equal when sizes, length, whole buffers, RoPE settings and bindings agree, "
        "numbers "
        "compared as numbers and addresses not at all.",
        "no adapter method compares two caches",
        ("tests/test_reference_layer_cache.py::test_equality_compares_numbers_as_numbers",),
        STATE,
    ),
    _inside(
        "SNAPSHOT-FAILURE",
        "A snapshot that cannot be had MUST be refused.",
        "memory cannot be taken away from outside at the right moment",
        ("tests/test_reference_layer_cache.py::test_a_copy_that_cannot_be_had_is_refused",),
        STATE,
    ),
    _inside(
        "HEAD-WIDTH",
        "A layer of another head width MUST be refused as cache_head_width_mismatch.",
        "with H*d = D it never comes alone: model width or head count differs too and is reported first",
        (
            "tests/test_reference_layer_rejections.py::"
            "test_each_refusal_alone_carries_both_sides_and_changes_nothing",
        ),
        "System 1, Rejections, check 7",
    ),
    _inside(
        "NO-JOIN",
        "Retained rows MUST be read where they lie; nothing of the history is copied per step.",
        "a copy that is thrown away leaves no trace in any observation",
        (
            "tests/test_reference_layer_memory.py::"
            "test_the_peak_of_a_step_at_row_1000_is_that_at_row_10_plus_scores",
        ),
        ONE_STEP,
    ),
    _inside(
        "INDEPENDENT-PASS",
        "The full-prefix pass that agreement is measured against MUST use nothing of the cached calculation.",
        "two paths that share a mistake agree with each other",
        ("tests/test_reference_layer_full_prefix.py::test_the_pass_uses_nothing_of_the_cached_calculation",),
        "System 1, Agreement",
    ),
    _inside(
        "TICKET",
        "A prepared step MUST change nothing; its ticket is used once, matches by length and both addresses, "
        "and costs nothing when dropped.",
        "tickets are not part of any public call",
        (
            f"{PREPARED}::test_prepare_computes_everything_and_changes_nothing",
            f"{PREPARED}::test_a_ticket_is_used_once",
            f"{PREPARED}::test_a_ticket_matches_by_length_and_addresses_alone",
            f"{PREPARED}::test_dropping_a_ticket_costs_nothing",
        ),
        PREPARE,
    ),
    _inside(
        "COMMIT",
        "A commit MUST NOT fail once its ticket matches; of several, all are tested before the first is "
        "made.",
        "what cannot fail cannot be made to fail from outside",
        (
            f"{PREPARED}::test_commit_cannot_fail_once_its_ticket_matches",
            f"{PREPARED}::test_one_ticket_that_does_not_match_keeps_the_whole_stack",
            f"{PREPARED}::test_commit_writes_keys_then_values_then_raises_the_length",
        ),
        PREPARE,
    ),
    _inside(
        "UNCHECKED-CALL",
        "The inner call MUST compute the same as the checked one and check no precondition.",
        "the inner call is not public",
        (f"{PREPARED}::test_the_inner_call_checks_nothing_and_computes_the_same",),
        PREPARE,
    ),
    _inside(
        "CANDIDATE",
        "Candidate rows MUST be checked last: shapes, room, then the first key and the first value that is "
        "not "
        "finite, wrapped with their cause.",
        "an earlier stage meets every such row first",
        (
            f"{PREPARED}::test_candidate_rows_must_have_the_shape_of_the_slots_keys_first",
            f"{PREPARED}::test_candidate_rows_must_be_finite_and_the_first_bad_key_is_named",
            f"{INSIDE}::test_candidate_rows_that_are_not_finite_travel_wrapped",
        ),
        CALCULATION,
    ),
    _inside(
        "COUNTS",
        "Lane, score and output counts that overflow MUST be refused, in that order.",
        "no cache that fits into memory has such counts",
        (
            f"{INSIDE}::test_lane_counts_and_then_score_counts_that_overflow_are_refused",
            f"{INSIDE}::test_output_counts_that_overflow_are_refused_after_the_softmax",
        ),
        CALCULATION,
    ),
    _inside(
        "ALLOCATION",
        "Memory that runs out inside a step MUST be refused with its stage and its cause, and change "
        "nothing.",
        "memory cannot be taken away from outside at the right moment",
        (
            f""
            f"{INSIDE}::test_memory_that_runs_out_inside_a_step_is_refused_with_its_stage_and_changes_nothing",
            f"{INSIDE}::test_a_refusal_for_want_of_memory_keeps_its_cause_and_its_origin",
        ),
        CALCULATION,
    ),
    _inside(
        "LATE-STAGES",
        "Head layout, softmax and mixture MUST be refused where they fail.",
        "finite scores and finite values leave nothing there that could fail",
        (
            f"{INSIDE}::test_a_softmax_or_a_mixture_that_is_not_finite_is_refused",
            f"{INSIDE}::test_heads_that_are_not_finite_after_the_split_are_refused",
        ),
        CALCULATION,
    ),
    _inside(
        "HISTORY",
        "The summary of a history MUST refuse records that contradict each other or whose totals do not "
        "add up.",
        "the summary belongs to the reference's own report, not to a cache",
        (
            "tests/test_reference_layer_history.py::"
            "test_a_record_that_contradicts_itself_is_refused_with_its_step",
            "tests/test_reference_layer_history.py::test_totals_that_do_not_add_up_are_refused",
        ),
        "System 1, Work",
    ),
    _inside(
        "ERROR-EQUALITY",
        "Errors MUST compare by what they carry, and one that carries NaN MUST NOT equal itself.",
        "over an adapter a rejection is a kind with evidence, not an object to compare",
        ("tests/test_reference_layer_errors.py::test_an_error_that_carries_nan_is_not_equal_to_itself",),
        "System 1, Rejections",
    ),
)
