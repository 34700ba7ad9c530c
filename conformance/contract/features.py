"""What each optional ability must keep: chunks, grouped heads, rollback, fork, reorder."""

from __future__ import annotations

from conformance.contract.model import Requirement

LAYERS = ("layer", "attention")
CHUNKS = frozenset({"chunks"})
GQA = frozenset({"gqa"})


def _of(  # noqa: PLR0917 - a row of the table below
    feature: str, profile: str, name: str, sentence: str, source: str, look: str = ""
) -> Requirement:
    levels = LAYERS if feature in ("chunks", "gqa") else (*LAYERS, "store")
    return Requirement(
        id=name, sentence=sentence, levels=levels, profiles=(profile,), needs=frozenset({feature}),
        source=source, look=look,
    )  # fmt: skip


PREFILL = "forge, Prefill and decode; chunked prefill with bottom-right causal alignment"
SHAZEER = "Shazeer 2019, multi-query attention; grouped-query attention"
EDITS = "what decoding with speculation, beams and shared prompts asks of a cache"

REQUIREMENTS = (
    _of(
        "chunks",
        "chunks",
        "CHUNK-AGREE",
        "Every output row of an append of several rows, onto an empty or a filled cache, MUST be the exact "
        "one.",
        PREFILL,
        "causal mask aligned to the top left, positions counted from the chunk's first row",
    ),
    _of(
        "chunks",
        "chunks",
        "CHUNK-ROWS",
        "The rows that a chunk stores MUST be those that single appends store, within the bound.",
        PREFILL,
        "one position for the whole chunk, only the first row stored",
    ),
    _of(
        "chunks",
        "chunks",
        "CHUNK-PARTITIONS",
        "All 32 partitions of six rows MUST give the same lengths, and rows and outputs within the bound.",
        PREFILL,
        "a branch for one row that does other arithmetic than the branch for several",
    ),
    _of(
        "chunks",
        "chunks",
        "CHUNK-CAUSAL",
        "A later row of a chunk MUST NOT move an earlier output of the same call by a bit.",
        PREFILL,
        "no mask inside a chunk, or only when the cache is empty",
    ),
    _of(
        "chunks",
        "chunks",
        "CHUNK-EMPTY",
        "A chunk of no rows MUST be refused as empty_chunk or taken as nothing: the cache stays as it is.",
        PREFILL,
        "a length raised by one, a division by zero",
    ),
    _of(
        "chunks",
        "chunks",
        "CHUNK-CAPACITY",
        "A chunk that fits exactly MUST be accepted; one that does not fit MUST be refused as full with no "
        "row "
        "of it stored.",
        PREFILL,
        "the chunk compared with the capacity and not with what is left of it",
    ),
    _of(
        "gqa",
        "gqa",
        "GQA-ORDER",
        "Query head h MUST read key/value head h // (H/G), shown with 6 query and 3 key/value heads.",
        SHAZEER,
        "heads tiled instead of repeated: h mod G",
    ),
    _of(
        "gqa",
        "gqa",
        "GQA-STORED-HEADS",
        "A cache MUST hold G heads, not H.",
        SHAZEER,
        "heads repeated before they are stored",
    ),
    _of(
        "gqa",
        "gqa",
        "GQA-MULTI-QUERY",
        "One key/value head MUST serve all query heads.",
        SHAZEER,
    ),
    _of(
        "truncate",
        "rollback",
        "TRUNCATE-LENGTH",
        "Truncation MUST set the length, from 0 up to the present one.",
        EDITS,
        "0 read as nothing to remove, a truncation that does nothing",
    ),
    _of(
        "truncate",
        "rollback",
        "TRUNCATE-KEEPS",
        "Truncation MUST leave the rows that stay bit for bit as they were.",
        EDITS,
        "rows counted from the wrong end",
    ),
    _of(
        "truncate",
        "rollback",
        "TRUNCATE-FORGETS",
        "After a truncation the next rows MUST be, bit for bit, what they are in a cache that never had the "
        "rows taken away.",
        EDITS,
        "a position counter that is not taken back",
    ),
    _of(
        "truncate",
        "rollback",
        "TRUNCATE-REFUSED",
        "A length beyond the present one, or below 0, MUST be refused as invalid_length, and nothing "
        "changes.",
        EDITS,
        "negative lengths read as relative",
    ),
    _of(
        "fork",
        "fork",
        "FORK-EQUAL",
        "A fork MUST hold what its origin holds, bit for bit.",
        EDITS,
        "a fork that loses the length or one of the two buffers",
    ),
    _of(
        "fork",
        "fork",
        "FORK-APART",
        "Origin and fork MUST go on as two lone caches, whatever the other is given, also after a reset of "
        "one.",
        EDITS,
        "shared buffers, no copy on write inside a block",
    ),
    _of(
        "reorder",
        "reorder",
        "REORDER-LANES",
        "After a reorder, lane i MUST hold what lane lanes[i] held, keys and values, for permutations, "
        "duplicates and drops.",
        EDITS,
        "only the keys reordered, the inverse permutation, assignment in place with duplicates",
    ),
    _of(
        "reorder",
        "reorder",
        "REORDER-FUTURE",
        "After a reorder each lane MUST go on as a lone cache of its history.",
        EDITS,
        "a part of the state left in the old order",
    ),
    _of(
        "reorder",
        "reorder",
        "REORDER-REFUSED",
        "A lane that is not there MUST be refused as lane_out_of_range, and nothing changes.",
        EDITS,
        "negative lanes read from the end",
    ),
)
