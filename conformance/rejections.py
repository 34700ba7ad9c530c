"""Refused calls and their kinds."""

from __future__ import annotations

from typing import Any

CONSTRUCTION_KINDS = (
    "zero_batch_size",
    "zero_capacity",
    "capacity_exceeds_positions",
    "element_count_overflow",
    "allocation_failed",
)
"""Refusals of construction, in the order in which they are checked."""

APPEND_KINDS = (
    "input_rank",
    "single_token_required",
    "input_batch_mismatch",
    "input_width_mismatch",
    "cache_model_width_mismatch",
    "cache_head_count_mismatch",
    "cache_head_width_mismatch",
    "cache_layer_mismatch",
    "cache_layer_revision_mismatch",
    "cache_rope_mismatch",
    "full",
    "non_finite",
)
"""Refusals of an append, in the order in which they are checked; the first that applies is reported."""

DECODER_KINDS = (
    "empty_prompt",
    "prompt_exceeds_capacity",
    "token_out_of_vocabulary",
    "prefill_not_empty",
    "prefill_required",
    "model_mismatch",
    "configuration_mismatch",
    "stale_parameters",
    "parameters_locked",
    "layer_mismatch",
    "session_closed",
)

FEATURE_KINDS = ("empty_chunk", "invalid_length", "lane_out_of_range", "zero_block_size", "blocks_exhausted")

KINDS = CONSTRUCTION_KINDS + APPEND_KINDS + DECODER_KINDS + FEATURE_KINDS
"""Every kind that a `Rejected` may carry."""


class Rejected(Exception):  # noqa: N818 - a refusal is an answer, not an error of the kit
    """A call was refused and nothing has changed.

    kind: one of `KINDS`; only the kind is judged of every implementation. The rest is evidence: stage (which
    of query, key, value, score, ... failed), index (flat index of the first number that is not finite),
    value (that number), parameter (index 0 to 3 of the first parameter that differs), expected and found
    (what the cache wanted, what it got).
    """

    def __init__(
        self,
        kind: str,
        message: str = "",
        *,
        stage: str | None = None,
        index: int | None = None,
        value: float | None = None,
        parameter: int | None = None,
        expected: Any = None,
        found: Any = None,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(
                f"Rejected: {kind!r} is not a kind of rejection; the kinds are {', '.join(KINDS)}"
            )
        super().__init__(message or kind)
        self.kind, self.message = kind, message or kind
        self.stage, self.index, self.value = stage, index, value
        self.parameter, self.expected, self.found = parameter, expected, found
