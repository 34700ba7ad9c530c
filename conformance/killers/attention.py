"""Faults of level attention: those of the open layer that lie between given rows and mixed heads.

The class of the fault stands in front of the open attention, so that each is the same change of one method.
"""

from __future__ import annotations

from conformance.killers.model import Killer, killer, registered
from conformance.killers.open_attention import OpenAttentionAdapter

INSTEAD = {
    "AGREE-WEIGHTS": "AGREE-OUTPUT",
    "AGREE-HEADS": "AGREE-OUTPUT",
    "mask_minus_1e4": "CHUNK-AGREE",
}
"""What catches a fault at level attention, by its id or by the requirement that catches it at level layer."""

SHARED: tuple[str, ...] = (
    # scores and softmax
    "scale_1_over_d", "scale_none", "scale_f32", "single_row_scale", "chunk_scale", "chunk_in_float32",
    "no_max_subtraction", "global_max", "max_wrong_axis", "softmax_f32", "norm_eps", "norm_eps_1e12",
    "softmax1", "softmax_axis_heads", "softmax_axis_query", "not_normalised", "uniform_weights",
    # masks
    "mask_off_by_one_open", "mask_off_by_one_closed", "excludes_self", "window_drop_first", "window_last2",
    "mask_top_left", "mask_top_left_chunks", "mask_square_padded", "mask_none_in_chunk", "mask_off_with_past",
    "mask_off_when_empty", "mask_chunk_only_self", "mask_adds_zero", "mask_minus_1e4",
    "softmax_over_capacity", "length_rounded_to_block", "length_as_last_index", "mix_over_capacity",
    "mask_added_to_poison", "later_row_moves_earlier_output",
    # heads
    "gqa_tile", "gqa_k_tile_v_repeat", "gqa_stored_repeated", "gqa_first_only", "gqa_mean",
    "gqa_single_head_zero",
    # storage
    "f32_cache", "f16_cache", "bf16_cache", "minus_zero_lost", "write_one_late", "overwrite_last",
    "next_slot_cleared", "first_single_row_not_stored", "chunk_stores_first_row", "v_stale",
    "heads_written_as_positions", "full_clips_slot", "full_wraps", "full_drops_row", "ring_wrap",
    "rows_concatenated", "grown_by_reshape", "recomputes_prefix", "length_raised_twice",
    "append_works_on_copy", "capacity_shown_as_length", "values_allocated_as_keys", "observation_kept",
    # reset and isolation
    "reset_noop", "reset_clears_numbers_only", "reset_clears", "reset_reallocates", "reset_consumes_capacity",
    "reset_grows_capacity", "stale_after_reset", "stale_rows_weigh_nothing", "replay_rounds_otherwise",
    "write_batch0_only", "batch_swapped_read", "batch_mean", "layers_share_cache", "caches_share_values",
    "alias_input", "snapshot_is_view", "snapshot_stays_tied", "observe_advances",
    # refusals
    "nothing_checked", "scores_clipped", "minus_infinity_taken_for_mask", "key_checked_after_write",
    "scores_checked_after_write", "value_checked_between_writes", "refused_row_is_zeroed",
    "length_raised_early", "refusal_empties_cache", "key_written_before_scores", "refusal_changes_value_row",
    "full_overwrites_last_row", "buffers_grown_before_refusal", "refusal_leaves_table",
    # chunks
    "empty_chunk_counts_one", "capacity_off_by_one", "chunk_compared_with_capacity",
    "chunk_that_fills_refused", "chunk_written_as_far_as_it_fits", "chunk_length_counts_one",
    # last bits, and what is shown
    "reset_moves_output", "reset_moves_keys", "reset_moves_values", "refusal_moves_output",
    "refusal_moves_keys", "refusal_moves_values", "truncation_moves_output", "truncation_moves_keys",
    "truncation_moves_values", "unused_slots_move_output", "lanes_leak_last_bits", "shown_keys_negated",
    "shown_values_negated", "snapshot_keys_unrotated", "snapshot_values_of_other_lane",
    "snapshot_is_locked_view", "shown_rows_follow_snapshot", "shown_values_follow_input",
    "heads_repeated_in_storage", "reset_frees_one_slot_too_many", "reset_shows_less_capacity",
    "fork_moves_last_bits_of_keys", "fork_moves_last_bits_of_values", "reorder_values_only",
    "truncate_clears_last_kept_key", "truncate_clears_last_kept_value", "tile_of_sixty_four_dropped",
    "rotates_in_callers_array", "output_squeezed", "output_float32",
    "old_keys_move_in_long_history", "old_values_move_in_long_history",
    # edits
    "truncate_noop", "truncate_zero_is_nothing", "truncate_keeps_slot", "truncate_negative_relative",
    "truncate_extends", "truncate_shrinks", "truncate_drops_first_rows", "fork_shares_buffers",
    "fork_shares_values", "fork_loses_values", "fork_loses_length", "reorder_keys_only", "reorder_inverse",
    "reorder_in_place", "reorder_forgotten_by_next_append", "reorder_negative_lanes", "reorder_clips_lanes",
)  # fmt: skip


def _plant(origin: Killer) -> None:
    fault = origin.make
    assert isinstance(fault, type)
    planted = type(f"Attention_{origin.id}", (fault, OpenAttentionAdapter), {})
    violates = INSTEAD.get(origin.id, INSTEAD.get(origin.violates, origin.violates))
    killer(
        f"attention_{origin.id}", fault=origin.fault, violates=violates, level="attention", says=origin.says
    )(planted)


_known = {entry.id: entry for entry in registered()}
for _name in SHARED:
    _plant(_known[_name])
