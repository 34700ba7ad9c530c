"""Positions, capacity, reset and isolation."""

from __future__ import annotations

from conformance.contract.model import Requirement

STORAGE = frozenset({"storage"})
BOTH = ("core", "strict")
LAYERS = ("layer", "attention")
STORED = ("layer", "attention", "store")

REQUIREMENTS = (
    Requirement(
        id="POSITION-OFFSET",
        sentence="The old length MUST be the position of the new row: keys stored after a history are "
        "rotated "
        "at it, not at 0, not at capacity, not one off.",
        levels=("layer",),
        profiles=BOTH,
        where_observable=True,
        source="System 1, One step; forge, Positions",
        look="positions counted from 0 in every call, from the new length, or modulo the capacity",
    ),
    Requirement(
        id="POSITION-AFTER-RESET",
        sentence="After a reset positions MUST start at 0 again, for the same rows and for other rows.",
        levels=("layer",),
        profiles=BOTH,
        where_observable=True,
        source="System 1, Reset",
        look="a position counter beside the length that reset forgets",
    ),
    Requirement(
        id="CAPACITY-FITS",
        sentence="Exactly C rows MUST fit: the row that fills the cache is accepted and right.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        source="System 1, State and Rejections",
        look="the last slot refused, slots that wrap one early",
    ),
    Requirement(
        id="CAPACITY-FULL",
        sentence="Row C + 1 MUST be refused as full.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        fixed_only=True,
        source="System 1, Rejections, check 11",
        look="a clipped slot, a ring, a silent drop of the extra row",
    ),
    Requirement(
        id="RESET-LENGTH",
        sentence="Reset MUST set the length to 0.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        source="System 1, Reset",
        look="a reset that clears numbers and keeps the length, or does nothing",
    ),
    Requirement(
        id="RESET-ADDRESSES",
        sentence="Reset MUST keep the storage where it is: no reallocation.",
        levels=LAYERS,
        profiles=("strict",),
        needs=STORAGE,
        fixed_only=True,
        source="System 1, Reset",
        look="a reset that builds a new cache",
    ),
    Requirement(
        id="RESET-BYTES",
        sentence="Reset MUST leave every stored byte as it is.",
        levels=LAYERS,
        profiles=("strict",),
        needs=STORAGE,
        fixed_only=True,
        source="System 1, Reset: sets the length to 0 and does nothing else",
        look="a reset that clears the buffers",
    ),
    Requirement(
        id="RESET-CAPACITY",
        sentence="Reset MUST keep the capacity: C rows fit again, and no more.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        source="System 1, Reset",
    ),
    Requirement(
        id="RESET-REPLAY",
        sentence="Replaying the same rows after a reset MUST give identical records, bit for bit.",
        levels=LAYERS,
        profiles=BOTH,
        source="System 1, Reset",
        look="a counter, a table or a mask that survives the reset",
    ),
    Requirement(
        id="RESET-INFLUENCE",
        sentence="After a reset nothing of what was there MUST influence a later row: other rows give, bit "
        "for "
        "bit, what a fresh cache gives.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        source="System 1, Reset: stale rows are never read",
        look="rows up to an old high-water mark still read",
    ),
    Requirement(
        id="RESET-POISONED",
        sentence="Reset and replay MUST equal a fresh cache bit for bit also when unused storage holds NaN "
        "or "
        "1e300.",
        levels=LAYERS,
        profiles=("strict",),
        needs=frozenset({"poison"}),
        source="System 1, Reset",
    ),
    Requirement(
        id="ISOLATE-LANES",
        sentence="A lane MUST NOT depend on another lane: permuted lanes give permuted results, and a change "
        "in one lane moves no other.",
        levels=LAYERS,
        profiles=BOTH,
        source="System 1, State: one length, shared by all lanes, and nothing else",
        look="a batch stride, a mean over lanes, lane 0 written to all",
    ),
    Requirement(
        id="ISOLATE-CACHES",
        sentence="Two caches of one layer, used alternately, MUST each behave as if alone.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        source="System 1, State",
        look="buffers or counters shared by caches, tables memoised on the shape alone",
    ),
    Requirement(
        id="ISOLATE-INPUTS",
        sentence="A call MUST NOT change the arrays that it is given.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        source="System 1, One step",
        look="rotation in place in the caller's array",
    ),
    Requirement(
        id="ISOLATE-CALLER-ARRAY",
        sentence="A later change of the caller's own array MUST change nothing in the cache.",
        levels=STORED,
        profiles=("core", "strict", "store"),
        source="System 1, State",
        look="the caller's array stored without a copy",
    ),
    Requirement(
        id="ISOLATE-HANDED-OUT",
        sentence="Arrays that the implementation hands out (step fields, snapshots) MUST NOT alias storage.",
        levels=LAYERS,
        profiles=BOTH,
        source="System 1, State: fresh copies, never views",
        look="a snapshot that is a view of the buffer",
    ),
)
