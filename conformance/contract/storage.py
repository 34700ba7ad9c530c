"""What is stored, where, and that it is really reused."""

from __future__ import annotations

from conformance.contract.model import Requirement

STORAGE = frozenset({"storage"})
BOTH = ("core", "strict")
LAYERS = ("layer", "attention")
STORED = ("layer", "attention", "store")

REQUIREMENTS = (
    Requirement(
        id="STORE-KEYS",
        sentence="The logical keys MUST be the exact projected keys rotated at their absolute positions (as "
        "declared: rotated or not), within the bound.",
        levels=LAYERS,
        profiles=BOTH,
        where_observable=True,
        source="System 1, State and Agreement",
        look="a constant position offset, which no output can show; a narrower storage dtype",
    ),
    Requirement(
        id="STORE-VALUES",
        sentence="The logical values MUST be the exact projected values, never rotated, within the bound.",
        levels=LAYERS,
        profiles=BOTH,
        where_observable=True,
        source="System 1, State and Agreement",
        look="values rotated, keys kept as values, lanes or heads exchanged on the way into storage",
    ),
    Requirement(
        id="STORE-LENGTH",
        sentence="The length MUST start at 0 and rise by exactly the number of rows of every append.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        source="System 1, State and One step",
        look="length raised twice, a length read from the buffer's shape",
    ),
    Requirement(
        id="STORE-LOGICAL-SHAPE",
        sentence="Logical snapshots MUST have the shapes [B,G,n,dk] and [B,G,n,dv].",
        levels=STORED,
        profiles=("core", "strict", "store"),
        where_observable=True,
        source="System 1, State",
        look="query heads stored instead of key/value heads, capacity instead of length",
    ),
    Requirement(
        id="STORE-EARLIER-ROWS",
        sentence="An append MUST leave every earlier row bit for bit as it was.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        where_observable=True,
        source="System 1, State",
        look="stored keys rotated once more, a write at the wrong slot, growth that shuffles axes",
    ),
    Requirement(
        id="STORE-LATER-SLOTS",
        sentence="An append MUST leave every slot beyond its own rows bit for bit as it was.",
        levels=LAYERS,
        profiles=("strict",),
        needs=STORAGE,
        fixed_only=True,
        source="System 1, State: a commit touches nothing but slot p",
        look="rows written one slot too far, a whole block written",
    ),
    Requirement(
        id="STORE-ROW-BITS",
        sentence="The stored rows MUST be the candidate key and value rows bit for bit, -0.0 included.",
        levels=STORED,
        profiles=("strict", "store"),
        where_observable=True,
        source="System 1, One step",
        look="rows written through an addition or a narrower dtype",
    ),
    Requirement(
        id="STORE-TOTAL",
        sentence="Storage MUST hold exactly 2*B*G*C*d elements: keys and values, never queries.",
        levels=("layer",),
        profiles=("strict",),
        needs=STORAGE,
        source="System 1, State",
        look="queries kept, heads repeated before storing, capacity rounded up",
    ),
    Requirement(
        id="STORE-TWO-BUFFERS",
        sentence="Storage MUST be two buffers [B,G,C,d], keys allocated before values.",
        levels=("layer",),
        profiles=("strict",),
        needs=STORAGE,
        source="System 1, State",
    ),
    Requirement(
        id="STORE-ROW-MAJOR",
        sentence="The row of lane (b,h) at position p MUST start at ((b*G + h)*C + p)*d of its buffer.",
        levels=("layer",),
        profiles=("strict",),
        needs=STORAGE,
        source="System 1, State",
        look="position-major rows, another axis order",
    ),
    Requirement(
        id="STORE-ZERO-FILLED",
        sentence="A new cache MUST hold +0.0 in every slot.",
        levels=("layer",),
        profiles=("strict",),
        needs=STORAGE,
        source="System 1, State",
        look="buffers left uninitialised",
    ),
    Requirement(
        id="STORE-ADDRESSES",
        sentence="Storage MUST stay at the same addresses over every append.",
        levels=LAYERS,
        profiles=("strict",),
        needs=STORAGE,
        fixed_only=True,
        source="System 1, State: buffers are never replaced",
        look="rows joined by concatenation, a buffer replaced at every step",
    ),
    Requirement(
        id="STORE-UNUSED",
        sentence="What stands in unused slots, NaN and huge numbers included, MUST NOT influence any output.",
        levels=LAYERS,
        profiles=("strict",),
        needs=frozenset({"poison"}),
        source="System 1, Reset: stale rows are never read",
        look="scores against the whole buffer, weight 0 times NaN",
    ),
    Requirement(
        id="REUSE-STORED-ROW",
        sentence="When one stored value row is changed from outside, the next output MUST move exactly as "
        "the "
        "formula says: retained rows are read, not computed again.",
        levels=LAYERS,
        profiles=("strict",),
        needs=STORAGE,
        where_observable=True,
        source="System 1, Work: counts do not prove that no row was recomputed",
        look="a cache that computes the whole prefix again and ignores what it has stored",
    ),
    Requirement(
        id="REUSE-WORK-STEP",
        sentence="A step MUST declare position p, p + 1 full-prefix rows, 1 incremental row and p reused "
        "rows "
        "(for T rows: p + T, T, p).",
        levels=("layer",),
        profiles=("strict",),
        needs=frozenset({"work"}),
        source="System 1, Work",
        look="counts taken after the length was raised",
    ),
    Requirement(
        id="REUSE-WORK-TOTAL",
        sentence="Over lengths 1, 2, 3 the declared work MUST total 6 full-prefix, 3 incremental and 3 "
        "reused "
        "rows per projection, 6 avoided across keys and values, and full = incremental + reused.",
        levels=("layer",),
        profiles=("strict",),
        needs=frozenset({"work"}),
        source="System 1, Work",
    ),
)
