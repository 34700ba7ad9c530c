"""Killers that cannot be told apart, by name of their group, and killers that are taken for another one.

*Looks like* compares findings, refusals and lengths exactly, and arrays to rounding. What differs only beyond
that is one fault to it. Measured by `kv-conformance killers --confusion`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """Killers of one level that show the same. why: what they differ in, and why that is not seen."""

    name: str
    members: tuple[str, ...]
    why: str


def _at_attention(group: Group) -> Group:
    members = tuple(f"attention_{member}" for member in group.members)
    return Group(f"{group.name}, at level attention", members, group.why)


_UNUSED = Group(
    "unused slots are read",
    ("mask_added_to_poison", "mix_over_capacity"),
    "both let a number that is not finite in an unused slot into the output, which is NaN then",
)
_TRUNCATED = Group(
    "last bits moved by a truncation",
    ("truncation_moves_keys", "truncation_moves_values"),
    "a last bit of a key, or of a value: less than the rounding to which arrays are compared",
)
_FORKED = Group(
    "last bits moved by a fork",
    ("fork_moves_last_bits_of_keys", "fork_moves_last_bits_of_values"),
    "a last bit of a key, or of a value: less than the rounding to which arrays are compared",
)

GROUPS = (
    Group(
        "scores divided by the head width",
        ("scale_1_over_d", "both_paths_scale_otherwise"),
        "the second is wrong in the uncached pass too, and so agrees with itself",
    ),
    _UNUSED,
    _at_attention(_UNUSED),
    Group(
        "buffers that are not +0.0",
        ("buffers_minus_zero", "buffers_not_cleared"),
        "both break the one rule about new buffers, and nothing that is computed; bytes are not compared",
    ),
    Group(
        "identity and revision in the wrong order",
        ("order_revision_before_identity", "identity_and_revision_interleaved"),
        "a call that breaks both rules is reported as stale by either",
    ),
    Group(
        "stale weights taken",
        ("revision_unchecked", "revision_checked_on_empty_cache"),
        "the second refuses on an empty cache alone; every trace compared had taken a row",
    ),
    Group(
        "revision read off the numbers",
        ("revision_by_numbers", "revision_by_first_row"),
        "an update with equal numbers is missed by both; they part where only later rows of a weight change",
    ),
    Group(
        "RoPE base compared loosely",
        ("rope_base_in_float32", "rope_base_with_tolerance"),
        "one unit in the last place is too little for both",
    ),
    Group(
        "a row of the wrong width breaks the product",
        ("check_width_dropped", "refusal_is_value_error"),
        "both leave it to the matrix product to raise",
    ),
    Group(
        "reuse not claimed",
        ("work_claims_full_prefix", "work_claims_no_reuse"),
        "both figures are wrong in the same steps; which check fails is compared, not by how much",
    ),
    Group(
        "new rows miscounted",
        ("work_claims_two_new_rows", "work_counts_history_alone"),
        "both figures are wrong in the same steps; which check fails is compared, not by how much",
    ),
    Group(
        "last bits of keys or values after a reset",
        ("replay_key_rounds_otherwise", "reset_moves_value", "reset_moves_rotated_key"),
        "a last bit of a stored row, or of what a step shows of it",
    ),
    Group(
        "last bits of a step after a reset",
        (
            "reset_moves_output", "reset_moves_key", "reset_moves_weights", "reset_moves_heads",
            "reset_moves_merged",
        ),
        "a last bit of one field or another",
    ),
    Group(
        "last bits moved by a reset",
        ("reset_moves_keys", "reset_moves_values"),
        "a last bit of a key, or of a value: less than the rounding to which arrays are compared",
    ),
    Group(
        "last bits moved by a refusal",
        ("refusal_moves_keys", "refusal_moves_values"),
        "a last bit of a key, or of a value: less than the rounding to which arrays are compared",
    ),
    _TRUNCATED,
    _at_attention(_TRUNCATED),
    _FORKED,
    _at_attention(_FORKED),
    Group(
        "last bits of old rows in a long history",
        ("old_keys_move_in_long_history", "old_values_move_in_long_history"),
        "a last bit of a key, or of a value: less than the rounding to which arrays are compared",
    ),
    Group(
        "last bits moved by a refused opening",
        ("decoder_refused_reopen_moves_keys", "decoder_refused_reopen_moves_values"),
        "a last bit of a key, or of a value: less than the rounding to which arrays are compared",
    ),
)  # fmt: skip

TAKEN_FOR_ANOTHER: Mapping[str, str] = {
    "frequencies_keyed_on_width": "shows once another layer has been used; each trace is compared alone",
    "scale_keyed_on_model_width": "shows once another layer has been used; each trace is compared alone",
    "weights_keyed_on_shape": "shows once another layer has been used; each trace is compared alone",
    "refused_construction_locks_layer": "shows only in the traces after the refusal; each is compared alone",
    "reset_rebinds": "a cache bound anew is an empty one whose revision nobody checks: the same calls pass",
    "block_handed_out_twice": "lanes in the same blocks hold the rows of one lane, as if one were written",
    "reset_moves_value": "of a group of which each is as near as the others",
    "reset_moves_rotated_key": "of a group of which each is as near as the others",
}
"""Killers whose own class does not come first, and why."""


def groups() -> Mapping[str, Group]:
    """The group of each killer that has one."""
    return {member: group for group in GROUPS for member in group.members}
