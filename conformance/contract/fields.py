"""Under which requirement an observed field is filed where a trace does not say otherwise."""

from __future__ import annotations

REQUIREMENT_OF_FIELD = {
    "output": "AGREE-OUTPUT",
    "query": "AGREE-PROJECTED",
    "key": "AGREE-PROJECTED",
    "value": "AGREE-PROJECTED",
    "rotated_query": "AGREE-ROTATED-QUERY",
    "rotated_key": "AGREE-ROTATED-KEY",
    "weights": "AGREE-WEIGHTS",
    "heads": "AGREE-HEADS",
    "merged": "AGREE-MERGED",
    "keys": "STORE-KEYS",
    "values": "STORE-VALUES",
    "length": "STORE-LENGTH",
}

REQUIREMENT_OF_KIND = {
    "input_rank": "REJECT-RANK",
    "single_token_required": "REJECT-TOKENS",
    "input_batch_mismatch": "REJECT-BATCH",
    "input_width_mismatch": "REJECT-WIDTH",
    "cache_model_width_mismatch": "BIND-MODEL-WIDTH",
    "cache_head_count_mismatch": "BIND-HEADS",
    "cache_layer_mismatch": "BIND-IDENTITY",
    "cache_layer_revision_mismatch": "BIND-REVISION",
    "cache_rope_mismatch": "BIND-ROPE-BASE",
    "full": "CAPACITY-FULL",
    "non_finite": "REJECT-NON-FINITE-INPUT",
    "empty_prompt": "DECODE-REFUSE-EMPTY-PROMPT",
    "prompt_exceeds_capacity": "DECODE-REFUSE-LONG-PROMPT",
    "token_out_of_vocabulary": "DECODE-REFUSE-TOKEN",
    "prefill_not_empty": "DECODE-REFUSE-SECOND-PREFILL",
    "prefill_required": "DECODE-REFUSE-DECODE-FIRST",
    "model_mismatch": "DECODE-REFUSE-MODEL",
    "configuration_mismatch": "DECODE-REFUSE-CONFIGURATION",
    "stale_parameters": "DECODE-REFUSE-STALE",
    "parameters_locked": "DECODE-REFUSE-LOCKED",
    "session_closed": "DECODE-REFUSE-CLOSED",
}
"""For a refusal said in YAML without naming its requirement."""

UNCHANGED = {
    "length": "ATOMIC-LENGTH",
    "rows": "ATOMIC-ROWS",
    "storage": "ATOMIC-BYTES",
    "addresses": "ATOMIC-ADDRESSES",
}
"""What `unchanged: NAME` of a refused call asks."""

OF_A_DECODER = {
    "AGREE-OUTPUT": "DECODE-LOGITS",
    "SHAPE-OUTPUT": "DECODE-SHAPE",
    "STORE-LOGICAL-SHAPE": "DECODE-SHAPE",
    "STORE-KEYS": "DECODE-KEYS",
    "STORE-VALUES": "DECODE-VALUES",
    "STORE-LENGTH": "DECODE-LENGTH",
    "STORE-EARLIER-ROWS": "DECODE-EARLIER-ROWS",
    "STORE-ADDRESSES": "DECODE-STORAGE",
    "CAPACITY-FULL": "DECODE-REFUSE-FULL",
    "REJECT-RANK": "DECODE-REFUSE-FORM",
    "REJECT-BATCH": "DECODE-REFUSE-FORM",
    "REJECT-DETAILS": "DECODE-REFUSE-DETAILS",
    "RESET-LENGTH": "DECODE-RESET-LENGTH",
    "RESET-BYTES": "DECODE-RESET-STORAGE",
    "RESET-ADDRESSES": "DECODE-RESET-STORAGE",
    "RESET-REPLAY": "DECODE-RESET-REPLAY",
    "ATOMIC-LENGTH": "DECODE-ATOMIC-LENGTH",
    "ATOMIC-ROWS": "DECODE-ATOMIC-ROWS",
    "ATOMIC-BYTES": "DECODE-ATOMIC-STORAGE",
    "ATOMIC-ADDRESSES": "DECODE-ATOMIC-STORAGE",
}
"""What level decoder files the rules of a single cache under; there they hold of every layer at once."""


def at_level(requirement: str, level: str) -> str:
    """The requirement under which `level` files what a lone cache files under `requirement`."""
    return OF_A_DECODER.get(requirement, requirement) if level == "decoder" else requirement
