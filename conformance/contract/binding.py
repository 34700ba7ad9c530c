"""The tie between a cache and the layer that it was built for."""

from __future__ import annotations

from conformance.contract.model import Requirement

REWIRE = frozenset({"rewire"})
UPDATE = frozenset({"update_parameters"})
LAYER = ("layer",)

REQUIREMENTS = (
    Requirement(
        id="BIND-IDENTITY",
        sentence="A layer in which any one of the four parameters was rebuilt MUST be refused as "
        "cache_layer_mismatch, whatever its numbers.",
        levels=LAYER,
        profiles=("strict",),
        needs=REWIRE,
        source="System 1, Binding",
        look="identity compared by value, only one parameter compared",
    ),
    Requirement(
        id="BIND-REVISION",
        sentence="An update in place of any one of the four parameters MUST make the cache stale: "
        "cache_layer_revision_mismatch, with the index of the first parameter that differs where it is "
        "given.",
        levels=LAYER,
        profiles=("strict",),
        needs=UPDATE,
        source="System 1, Binding",
        look="only identities compared, only one revision compared, a checksum of a part",
    ),
    Requirement(
        id="BIND-REVISION-EQUAL-NUMBERS",
        sentence="An update with equal numbers MUST make the cache stale as well.",
        levels=LAYER,
        profiles=("strict",),
        needs=UPDATE,
        source="System 1, Binding: any difference of revision counts",
        look="staleness judged by the numbers",
    ),
    Requirement(
        id="BIND-IDENTITY-FIRST",
        sentence="All four identities MUST be compared before any revision.",
        levels=LAYER,
        profiles=("strict",),
        needs=REWIRE | UPDATE,
        source="System 1, Binding",
        look="identity and revision compared parameter by parameter",
    ),
    Requirement(
        id="BIND-ROPE-BASE",
        sentence="Another RoPE base MUST be refused as cache_rope_mismatch, one unit in the last place "
        "included.",
        levels=LAYER,
        profiles=("strict",),
        needs=REWIRE,
        source="System 1, Binding: base compared bit for bit",
        look="bases compared with a tolerance or in float32",
    ),
    Requirement(
        id="BIND-ROPE-POSITIONS",
        sentence="The same base with another position capacity MUST be refused as cache_rope_mismatch.",
        levels=LAYER,
        profiles=("strict",),
        needs=REWIRE,
        source="System 1, Binding",
    ),
    Requirement(
        id="BIND-MODEL-WIDTH",
        sentence="A layer of another model width MUST be refused as cache_model_width_mismatch.",
        levels=LAYER,
        profiles=("strict",),
        source="System 1, Rejections, check 5",
    ),
    Requirement(
        id="BIND-HEADS",
        sentence="A layer of another head count MUST be refused as cache_head_count_mismatch.",
        levels=LAYER,
        profiles=("strict",),
        source="System 1, Rejections, check 6",
    ),
    Requirement(
        id="BIND-KV-HEADS",
        sentence="A layer with another number of key/value heads MUST be refused as "
        "cache_head_count_mismatch.",
        levels=LAYER,
        profiles=("strict",),
        needs=frozenset({"gqa"}),
        where_observable=True,
        source="System 1, Rejections, check 6; grouped-query attention",
    ),
    Requirement(
        id="BIND-RESET-CURES-NOTHING",
        sentence="Reset MUST refresh neither identities nor revisions: a stale cache stays stale.",
        levels=LAYER,
        profiles=("strict",),
        needs=UPDATE,
        source="System 1, Binding",
        look="a reset that rebinds",
    ),
    Requirement(
        id="BIND-NEW-CACHE",
        sentence="After an update of the weights a new cache MUST work, with the new weights.",
        levels=LAYER,
        profiles=("strict",),
        needs=UPDATE,
        source="System 1, Binding",
        look="weights copied at build time",
    ),
    Requirement(
        id="STALE-WEIGHTS",
        sentence="After an update of the weights an implementation MUST refuse or compute the prefix anew; "
        "rows "
        "of old and new weights are never mixed.",
        levels=LAYER,
        profiles=("core", "strict"),
        needs=UPDATE,
        where_observable=True,
        source="System 1, Binding: why",
        look="no check of revisions at all",
    ),
)
