"""Agreement with the exact value, for every field that a step offers."""

from __future__ import annotations

from conformance.contract.model import Requirement

EVIDENCE = frozenset({"evidence"})
BOTH = ("core", "strict")
LAYERS = ("layer", "attention")

REQUIREMENTS = (
    Requirement(
        id="AGREE-OUTPUT",
        sentence="Every output row MUST differ from the exact causal attention of its whole prefix by at "
        "most "
        "1e-12 in float64 (1e-12 itself passes), or by the printed bound where another is provable.",
        levels=LAYERS,
        profiles=BOTH,
        source="System 1, Agreement; Vaswani et al. 2017, section 3.2",
        look="position offset, score scale, softmax axis, causal alignment, head order, output projection",
        example="step 2, lane 0, feature 3: expected -0.58358947, observed -0.42073549, 1.6e11 bounds",
    ),
    Requirement(
        id="AGREE-TWIN",
        sentence="Exact relatives of the golden traces, drawn from a printed seed (powers of two, a common "
        "sign, "
        "lanes and heads in another order), MUST agree as the golden traces do.",
        levels=("layer",),
        profiles=BOTH,
        source="System 1, Agreement; metamorphic relations of attention",
        look="an implementation that knows the golden values by heart",
    ),
    Requirement(
        id="AGREE-PROJECTED",
        sentence="The projected query, key and value heads that a step reports MUST agree with the exact "
        "projections split into heads.",
        levels=("layer",),
        profiles=("strict",),
        needs=EVIDENCE,
        source="System 1, One step",
        look="weight orientation, exchanged weights, head split",
    ),
    Requirement(
        id="AGREE-ROTATED-QUERY",
        sentence="The rotated query that a step reports MUST be the projected query turned at its absolute "
        "position.",
        levels=("layer",),
        profiles=("strict",),
        needs=EVIDENCE,
        source="System 1, One step; RoPE angle p * base^(-2i/d)",
        look="query position read after the length was raised, another pairing, another base",
    ),
    Requirement(
        id="AGREE-ROTATED-KEY",
        sentence="The rotated key that a step reports MUST be the projected key turned at its absolute "
        "position.",
        levels=("layer",),
        profiles=("strict",),
        needs=EVIDENCE,
        source="System 1, One step; RoPE angle p * base^(-2i/d)",
        look="constant offset, another pairing, another base, frequencies in another order",
    ),
    Requirement(
        id="AGREE-WEIGHTS",
        sentence="The attention weights that a step reports MUST agree with the exact softmax over the p + 1 "
        "positions, the new row included.",
        levels=("layer",),
        profiles=("strict",),
        needs=EVIDENCE,
        source="System 1, One step",
        look="score scale, missing normalisation, rows beyond the length, the newest row left out",
    ),
    Requirement(
        id="AGREE-HEADS",
        sentence="The head outputs that a step reports MUST agree with the exact mixture of value rows.",
        levels=("layer",),
        profiles=("strict",),
        needs=EVIDENCE,
        source="System 1, One step",
        look="which key/value head a query head reads, stale value rows",
    ),
    Requirement(
        id="AGREE-MERGED",
        sentence="The merged heads that a step reports MUST be the head outputs side by side in head order.",
        levels=("layer",),
        profiles=("strict",),
        needs=EVIDENCE,
        source="System 1, One step",
        look="merge without the transpose, heads in reverse order",
    ),
    Requirement(
        id="AGREE-FULL-PREFIX",
        sentence="Every cached output MUST differ from the last row of the implementation's own full-prefix "
        "pass of that length by at most 1e-12 (1e-12 itself passes).",
        levels=("layer",),
        profiles=("strict",),
        needs=frozenset({"full_prefix"}),
        source="System 1, Agreement",
        look="the uncached path uses other positions, another mask or another scale than the cached one",
    ),
    Requirement(
        id="SHAPE-OUTPUT",
        sentence="The output of an append MUST be an array of the shape that the level states, in the "
        "declared dtype.",
        levels=LAYERS,
        profiles=BOTH,
        source="System 1, One step",
        look="a squeezed axis, a list, a result computed in a narrower dtype",
    ),
    Requirement(
        id="SHAPE-EVIDENCE",
        sentence="The evidence of a step MUST have the stated shapes: heads [B,H,T,d] and [B,G,T,d], weights "
        "[B,H,T,n] with n the new length, merged [B,T,H*d].",
        levels=("layer",),
        profiles=("strict",),
        needs=EVIDENCE,
        source="System 1, One step",
    ),
)
