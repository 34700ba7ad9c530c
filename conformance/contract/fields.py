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
}
"""For a refusal said in YAML without naming its requirement."""

UNCHANGED = {
    "length": "ATOMIC-LENGTH",
    "rows": "ATOMIC-ROWS",
    "storage": "ATOMIC-BYTES",
    "addresses": "ATOMIC-ADDRESSES",
}
"""What `unchanged: NAME` of a refused call asks."""
