"""Refused calls: each kind, their order, and that nothing has changed afterwards."""

from __future__ import annotations

from conformance.contract.model import Requirement

STORAGE = frozenset({"storage"})
BOTH = ("core", "strict")
LAYERS = ("layer", "attention")
STORED = ("layer", "attention", "store")
LAYER = ("layer",)


def _non_finite(stage: str, sentence: str, *, levels: tuple[str, ...] = LAYER) -> Requirement:
    return Requirement(
        id=f"REJECT-NON-FINITE-{stage}",
        sentence=sentence,
        levels=levels,
        profiles=("strict",),
        source="System 1, Rejections, during the calculation",
        look="the check of this stage is missing, or stands after the write",
    )


REQUIREMENTS = (
    Requirement(
        id="REJECT-RANK",
        sentence="An input whose rank is not 3 MUST be refused as input_rank.",
        levels=LAYER,
        profiles=("strict",),
        source="System 1, Rejections, check 1",
    ),
    Requirement(
        id="REJECT-TOKENS",
        sentence="An input of more or fewer than one token MUST be refused as single_token_required (where "
        "chunks are declared, an input of no token as empty_chunk or single_token_required).",
        levels=LAYER,
        profiles=("strict",),
        source="System 1, Rejections, check 2",
    ),
    Requirement(
        id="REJECT-BATCH",
        sentence="An input whose batch differs from the cache's MUST be refused as input_batch_mismatch.",
        levels=LAYER,
        profiles=("strict",),
        source="System 1, Rejections, check 3",
    ),
    Requirement(
        id="REJECT-WIDTH",
        sentence="An input whose width differs from the layer's MUST be refused as input_width_mismatch.",
        levels=LAYER,
        profiles=("strict",),
        source="System 1, Rejections, check 4",
    ),
    Requirement(
        id="REJECT-ORDER",
        sentence="A call that breaks two rules at once MUST be refused for the earlier one, for every pair "
        "of "
        "checks that can be built.",
        levels=LAYER,
        profiles=("strict",),
        needs=frozenset({"rewire", "update_parameters"}),
        source="System 1, Rejections: the first that applies is the one reported",
        look="two checks exchanged, the capacity looked at first",
    ),
    Requirement(
        id="REJECT-DETAILS",
        sentence="Where a rejection carries a parameter index, revisions, a flat index or a value, they "
        "MUST be "
        "those of the first offence.",
        levels=LAYER,
        profiles=("strict",),
        needs=frozenset({"update_parameters"}),
        where_observable=True,
        source="System 1, Rejections and Binding",
    ),
    _non_finite("INPUT", "A NaN or infinite row MUST be refused as non_finite.", levels=LAYERS),
    _non_finite(
        "QUERY", "A finite row that overflows in the query projection alone MUST be refused as non_finite."
    ),
    _non_finite(
        "KEY", "A finite row that overflows in the key projection alone MUST be refused as non_finite."
    ),
    _non_finite(
        "VALUE", "A finite row that overflows in the value projection alone MUST be refused as non_finite."
    ),
    _non_finite("ROTATION", "A key or query that overflows in the rotation MUST be refused as non_finite."),
    _non_finite(
        "SCORE",
        "A score that overflows to +inf MUST be refused as non_finite.",
        levels=LAYERS,
    ),
    _non_finite(
        "SCORE-MINUS",
        "A score that overflows to -inf MUST be refused as non_finite although the output would be finite.",
        levels=LAYERS,
    ),
    _non_finite(
        "OUTPUT",
        "A row that overflows in the output projection alone MUST be refused as non_finite.",
    ),
    Requirement(
        id="ATOMIC-LENGTH",
        sentence="A refused call MUST leave the length as it was.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        where_observable=True,
        after_refusal=True,
        source="System 1, Rejections",
        look="the length raised before the last check",
    ),
    Requirement(
        id="ATOMIC-ROWS",
        sentence="A refused call MUST leave the logical keys and values as they were, bit for bit.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        where_observable=True,
        after_refusal=True,
        source="System 1, Rejections",
        look="the newest row overwritten before the refusal",
    ),
    Requirement(
        id="ATOMIC-BYTES",
        sentence="A refused call MUST leave every stored byte as it was, unused slots included.",
        levels=LAYERS,
        profiles=("strict",),
        needs=STORAGE,
        source="System 1, Rejections",
        look="the key written before the value was checked",
    ),
    Requirement(
        id="ATOMIC-ADDRESSES",
        sentence="A refused call MUST leave the storage where it was.",
        levels=LAYERS,
        profiles=("strict",),
        needs=STORAGE,
        fixed_only=True,
        source="System 1, Rejections",
        look="buffers grown before the refusal",
    ),
    Requirement(
        id="ATOMIC-FUTURE",
        sentence="After a refused call what is still lawful MUST go on, bit for bit as beside an untouched "
        "twin.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        where_observable=True,
        after_refusal=True,
        source="System 1, Rejections",
        look="a position counter moved by the refused call, a poisoned table",
    ),
)
