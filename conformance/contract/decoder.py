"""What a decoder must keep: tokens in, logits out, prefill and decode, one cache a layer.

Profile `core` holds what any decoder must do whatever its design; `decoder` adds what the whole-model session
of System 3 demands; `self-agreement` is what can be asked of a decoder whose formulas the kit does not know.
"""

from __future__ import annotations

from conformance.contract.model import Requirement

SYSTEM = "System 3, the whole-model session"
FORGE = "System 2, forge's forward pass"
ALL = ("core", "decoder", "self-agreement")
FORMULA = ("core", "decoder")
SESSION = ("decoder",)
STORAGE = frozenset({"storage"})
FULL_PREFIX = frozenset({"full_prefix"})


def decode_rule(  # noqa: PLR0917 - a row of the table below
    name: str,
    profiles: tuple[str, ...],
    sentence: str,
    look: str = "",
    source: str = SYSTEM,
    needs: frozenset[str] = frozenset(),
    *,
    seen: bool = True,
    fixed: bool = False,
) -> Requirement:
    """seen: False where a profile may end conformant although the rule could not be looked at."""
    return Requirement(
        id=f"DECODE-{name}",
        sentence=sentence,
        levels=("decoder",),
        profiles=profiles,
        source=source,
        needs=needs,
        where_observable=not seen,
        fixed_only=fixed,
        look=look,
    )


AGREEMENT = (
    decode_rule(
        "LOGITS", FORMULA,
        "The logits of every prefill and decode MUST differ from the exact complete-prefix logits by at most "
        "2e-12 on the published decoder, and by at most the printed bound elsewhere.",
        "missing residual, norm epsilon, exchanged blocks, a mask left out of prefill, stale rows",
    ),
    decode_rule(
        "SHAPE", FORMULA,
        "Logits MUST be [B,T,V] for a prefill ([B,1,V] where so declared) and [B,1,V] for a decode, in the "
        "declared dtype; cached keys and values [B,G,n,d].",
        "a squeezed axis, only the last row of a prefill, query heads stored",
    ),
    decode_rule(
        "PARTITIONS", FORMULA,
        "A prompt given whole, in part and then decoded, or as one token and then decoded MUST give the same "
        "logits and the same cached rows within the bound.",
        "prefill and decode computed by different formulas, positions counted anew by decode",
        f"{SYSTEM}; {FORGE}",
    ),
    decode_rule(
        "KEYS", FORMULA,
        "The cached keys of every layer MUST be the exact projected keys rotated at their absolute positions "
        "(as declared), within the bound.",
        "a layer's cache handed to another layer, a constant position offset, a mask missing in prefill, "
        "which shows from the second layer on",
        seen=False,
    ),
    decode_rule(
        "VALUES", FORMULA,
        "The cached values of every layer MUST be the exact projected values within the bound.",
        "keys kept as values, values rotated, a layer's cache handed to another layer",
        seen=False,
    ),
    decode_rule(
        "LENGTH", ALL,
        "The length of every layer MUST start at 0 and rise by exactly the number of tokens of each call.",
        "a layer that is never written, a length taken from layer 0 for all",
    ),
    decode_rule(
        "EARLIER-ROWS", ALL,
        "A call MUST leave every earlier row of every layer bit for bit as it was.",
        "stored keys rotated once more, a decode that writes over the newest row",
        seen=False,
    ),
    decode_rule(
        "CAUSAL", ALL,
        "A later token of a prompt MUST NOT move an earlier logit row, or an earlier cached row of any "
        "layer, by a bit.",
        "no causal mask in prefill, or only in the first layer",
    ),
    decode_rule(
        "GREEDY", FORMULA,
        "Greedy generation with the cache MUST choose the tokens that complete-prefix passes choose, from "
        "the same logits within the bound, until the capacity is used up.",
        "the row of another token taken as the newest, a token decoded twice or not at all",
        f"{SYSTEM}; chapter 37 on complete generation",
    ),
    decode_rule(
        "OWN-PASS", SESSION,
        "Every cached logit row MUST agree with the implementation's own complete-prefix pass within the "
        "bound.",
        "the uncached path uses other positions, another mask or other weights than the cached one",
        needs=FULL_PREFIX,
    ),
    decode_rule(
        "OWN-PASS-APART", ("decoder", "self-agreement"),
        "A complete-prefix pass without the cache MUST neither read nor change any session: what goes on "
        "after it is bit for bit what goes on without it.",
        "a position counter in the model that the uncached pass reads or moves",
        FORGE,
        FULL_PREFIX,
    ),
    decode_rule(
        "SELF-AGREEMENT", ("self-agreement",),
        "Cached logits MUST agree with the implementation's own complete-prefix pass within 168 roundings of "
        "the declared arithmetic (1e-5 in float32), relative to the largest logit where that exceeds 1.",
        "a token in the wrong place, a position miscounted, a write that never happens",
        "System 2, the six-token check and its gate of 1e-5",
        FULL_PREFIX,
    ),
)  # fmt: skip

OPTIONS = (
    decode_rule(
        "LEARNED", FORMULA,
        "A decoder with a learned position table MUST add the row of the absolute position and rotate "
        "nothing, which shows a constant offset that rotary positions hide.",
        "positions one off, positions from 0 in every call, a counter that a reset forgets",
        "options for library models; fault class POS-OFFSET-ZERO",
        seen=False,
    ),
    decode_rule(
        "UNTIED", FORMULA,
        "A decoder with a free head MUST compute logits with it, not with the token embedding.",
        "the embedding used as the head whatever is configured",
        "options for library models",
        seen=False,
    ),
    decode_rule(
        "BIASES", FORMULA,
        "A decoder with biases MUST add them in all seven projections of every block.",
        "the key's bias left out because softmax nearly hides it",
        "options for library models",
        seen=False,
    ),
    decode_rule(
        "HALF-PAIRS", FORMULA,
        "Rotary pairs MUST be those that are configured, adjacent features or halves of a head.",
        "the other pairing, which a head of two features hides",
        "RoPE in its two customary layouts",
        seen=False,
    ),
    decode_rule(
        "GROUPED", ("core", "decoder", "gqa"),
        "Query head h MUST read key/value head h // (H/G), shown with 6 query and 3 key/value heads; every "
        "layer holds G heads.",
        "heads tiled instead of repeated, heads repeated before they are stored",
        "Shazeer 2019; grouped-query attention",
        frozenset({"gqa"}),
        seen=False,
    ),
    decode_rule(
        "MULTI-QUERY", ("core", "decoder", "gqa"),
        "One key/value head MUST serve all query heads of every layer.",
        "a cache that holds H heads",
        "Shazeer 2019, multi-query attention",
        frozenset({"gqa"}),
        seen=False,
    ),
    decode_rule(
        "CHUNKS", ("chunks",),
        "A prompt given in any of the 32 partitions of six tokens to prefill MUST give the logits and cached "
        "rows of the exact pass within the bound.",
        "mask aligned to the top left, positions from 0 in every call",
        FORGE,
        frozenset({"chunks"}),
    ),
)  # fmt: skip

LIFE = (
    decode_rule(
        "RESET-LENGTH", ALL, "Reset MUST set the length of every layer to 0.", "only layer 0 is reset",
    ),
    decode_rule(
        "RESET-STORAGE", SESSION,
        "Reset MUST keep every layer's storage where it is and every stored byte as it is.",
        "a reset that builds new caches or clears them",
        needs=STORAGE, fixed=True,
    ),
    decode_rule(
        "RESET-REPLAY", ALL,
        "Replaying the same tokens after a reset MUST give identical logits and cached rows, bit for bit.",
        "a position counter, a phase or one layer's length that survives the reset",
    ),
    decode_rule(
        "RESET-INFLUENCE", ALL,
        "After a reset other tokens MUST give, bit for bit and in every layer, what a fresh session gives.",
        "rows up to an old length still read, a counter that runs on",
    ),
    decode_rule(
        "RESET-PHASE", SESSION,
        "After a reset a decode MUST be refused as prefill_required until a prompt has been taken.",
        "a flag of the finished prefill that the reset forgets",
    ),
    decode_rule(
        "RESET-WORK", SESSION,
        "Reset MUST zero the work counts.", "counts kept over the reset", needs=frozenset({"work"}),
    ),
    decode_rule(
        "LANES", ALL,
        "A lane MUST NOT depend on another lane: permuted lanes give permuted logits, and a change in one "
        "lane moves no other beyond the bound.",
        "lane 0 written to all, a mean over lanes",
    ),
    decode_rule(
        "SESSIONS", ALL,
        "Two sessions of one model, used alternately, MUST each behave as if alone.",
        "a position counter or a cache that lives in the model",
    ),
    decode_rule(
        "TOKENS", ALL,
        "A call MUST NOT change the token array that it is given, and a later change of that array MUST "
        "change nothing in the session.",
        "the caller's array kept as the history",
    ),
    decode_rule(
        "STORAGE", SESSION,
        "The storage of every layer MUST stay at the same addresses over every call.",
        "rows joined by concatenation", needs=STORAGE, fixed=True,
    ),
    decode_rule(
        "LAYERS-APART", SESSION,
        "The storage of each layer MUST be memory of its own.",
        "two layers that share one cache", needs=STORAGE,
    ),
    decode_rule(
        "WORK", SESSION,
        "Work counts MUST be tokens taken, rows written once per layer, 3*L projected rows a token, B*L*H*n "
        "cached scores for every new length n and B*L*H*n^2 complete-prefix scores for every call.",
        "counts that leave out the prompt, a layer or a lane",
        needs=frozenset({"work"}),
    ),
)  # fmt: skip


REQUIREMENTS = (*AGREEMENT, *OPTIONS, *LIFE)
