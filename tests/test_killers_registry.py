"""Every killer is well formed, every class is planted or said to be out of scope, no fault is forgotten."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from conformance.contract import all_requirements, requirement
from conformance.killers import killers
from conformance.killers.classes import CLASSES, OUT_OF_SCOPE, PUBLIC
from conformance.killers.controls import controls
from conformance.killers.controls.model import control, register
from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter

PLANTED = (
    "rope_offset_plus1", "rope_q_offset_plus1", "rope_1_based_k", "pos_from_capacity", "pos_from_len_after",
    "pos_always_zero", "pos_one_behind", "pos_chunk_constant", "pos_batch_mixed", "pos_mod_capacity",
    "rope_query_pos0", "rope_v", "rope_none", "rope_q_only", "rope_k_only", "k_unrotated",
    "k_cached_raw_rotated_at_query", "k_double_rotated", "rope_inverse", "rope_inverse_k",
    "rope_other_pairing", "rope_other_pairing_q", "rope_half_only", "base_10000", "freq_denominator_D",
    "freq_i_over_d", "freq_i_plus_1", "freq_halfminus1", "freq_reversed", "freq_f32", "rope_angle_f32",
    "rope_trig_f32", "scale_1_over_d", "scale_none", "scale_sqrt_D", "scale_f32", "no_max_subtraction",
    "global_max", "max_wrong_axis", "softmax_f32", "norm_eps", "norm_eps_1e12", "softmax1",
    "softmax_axis_heads", "softmax_axis_query", "not_normalised", "uniform_weights",
    "softmax_over_capacity", "mask_off_by_one_open", "mask_off_by_one_closed", "mask_top_left",
    "mask_none_in_chunk", "mask_chunk_only_self", "mask_adds_zero", "mask_minus_1e4", "excludes_self",
    "window_drop_first", "window_last2", "gqa_tile", "gqa_k_tile_v_repeat", "gqa_first_only", "gqa_mean",
    "heads_interleaved", "heads_reshape_no_transpose", "kv_heads_reversed", "merge_reversed",
    "merge_no_transpose", "merge_interleaved", "Wo_transposed", "Wo_identity", "Wq_transposed",
    "Wk_transposed", "Wv_transposed", "swap_Wq_Wk", "swap_Wk_Wv", "v_equals_k", "residual_added",
    "f32_cache", "bf16_cache", "alias_input", "ring_wrap", "write_one_late", "overwrite_last", "v_stale",
    "capacity_off_by_one", "write_batch0_only", "batch_swapped_read", "batch_mean", "pos_not_reset",
    "reset_noop", "stale_after_reset", "truncate_keeps_pos", "truncate_noop", "layers_share_cache",
)  # fmt: skip
"""Faults whose effect on outputs was measured one by one when the fixtures were chosen."""


def test_all_measured_faults_are_planted() -> None:
    assert len(PLANTED) == 94
    assert set(PLANTED) <= {entry.id for entry in killers()}


def test_ids_are_unique_and_plain() -> None:
    ids = Counter(entry.id for entry in (*killers(), *controls()))
    assert [name for name, count in ids.items() if count > 1] == []
    assert [name for name in ids if not re.fullmatch(r"[A-Za-z0-9_]+", name)] == []


@pytest.mark.parametrize("level", sorted({entry.level for entry in killers()}))
def test_a_killer_violates_a_requirement_of_its_level(level: str) -> None:
    """A requirement that is not asked of the level, or that no black box can see, could never catch it."""
    for entry in killers():
        if entry.level == level:
            violated = requirement(entry.violates)
            assert level in violated.levels, f"{entry.id}: {violated.id} is not asked of {level}"
            assert not violated.untestable, entry.id


def test_what_a_killer_says_is_a_phrase_for_people() -> None:
    for entry in (*killers(), *controls()):
        assert entry.says, entry.id
        assert not entry.says.endswith("."), entry.id
        assert "\n" not in entry.says, entry.id


def test_an_adapter_stands_behind_every_killer_and_control() -> None:
    for entry in (*killers(), *controls()):
        assert entry.make().declaration.levels[0] == entry.level, entry.id


def test_every_class_is_planted_or_out_of_scope_with_a_reason() -> None:
    planted = {entry.fault for entry in killers()}
    assert planted <= set(CLASSES)
    assert planted.isdisjoint(OUT_OF_SCOPE)
    assert planted | set(OUT_OF_SCOPE) == set(CLASSES)
    assert all(OUT_OF_SCOPE.values())


def test_public_classes_carry_their_reports_and_ours_none() -> None:
    assert all(entry.reports > 0 for entry in PUBLIC)
    assert [e.id for e in CLASSES.values() if not e.reports and e in PUBLIC] == []
    assert len(CLASSES) > len(PUBLIC)


def test_every_requirement_is_violated_by_a_killer() -> None:
    """By one that is meant for it; that every level has one that is caught, the matrix shows."""
    meant = {entry.violates for entry in killers()}
    asked = {e.id for e in all_requirements() if e.profiles and not e.untestable and not e.pending}
    assert asked <= meant, sorted(asked - meant)


def test_a_doubled_id_is_refused() -> None:
    with pytest.raises(ValueError, match="stands twice"):
        killer("rope_none", fault="SCALE", violates="AGREE-OUTPUT", says="again")(OpenLayerAdapter)
    with pytest.raises(ValueError, match="stands twice"):
        control("open_layer", says="again")(type("_Again", (OpenLayerAdapter,), {}))
    with pytest.raises(ValueError, match="stands twice"):
        register("open_layer", OpenLayerAdapter, says="again")
