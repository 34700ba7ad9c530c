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


def _decode(  # noqa: PLR0917 - a row of the table below
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
    _decode(
        "LOGITS", FORMULA,
        "The logits of every prefill and decode MUST differ from the exact complete-prefix logits by at most "
        "2e-12 on the published decoder, and by at most the printed bound elsewhere.",
        "missing residual, norm epsilon, exchanged blocks, a mask left out of prefill, stale rows",
    ),
    _decode(
        "SHAPE", FORMULA,
        "Logits MUST be [B,T,V] for a prefill ([B,1,V] where so declared) and [B,1,V] for a decode, in the "
        "declared dtype; cached keys and values [B,G,n,d].",
        "a squeezed axis, only the last row of a prefill, query heads stored",
    ),
    _decode(
        "PARTITIONS", FORMULA,
        "A prompt given whole, in part and then decoded, or as one token and then decoded MUST give the same "
        "logits and the same cached rows within the bound.",
        "prefill and decode computed by different formulas, positions counted anew by decode",
        f"{SYSTEM}; {FORGE}",
    ),
    _decode(
        "KEYS", FORMULA,
        "The cached keys of every layer MUST be the exact projected keys rotated at their absolute positions "
        "(as declared), within the bound.",
        "a layer's cache handed to another layer, a constant position offset, a mask missing in prefill, "
        "which shows from the second layer on",
        seen=False,
    ),
    _decode(
        "VALUES", FORMULA,
        "The cached values of every layer MUST be the exact projected values within the bound.",
        "keys kept as values, values rotated, a layer's cache handed to another layer",
        seen=False,
    ),
    _decode(
        "LENGTH", ALL,
        "The length of every layer MUST start at 0 and rise by exactly the number of tokens of each call.",
        "a layer that is never written, a length taken from layer 0 for all",
    ),
    _decode(
        "EARLIER-ROWS", ALL,
        "A call MUST leave every earlier row of every layer bit for bit as it was.",
        "stored keys rotated once more, a decode that writes over the newest row",
        seen=False,
    ),
    _decode(
        "CAUSAL", ALL,
        "A later token of a prompt MUST NOT move an earlier logit row, or an earlier cached row of any "
        "layer, by a bit.",
        "no causal mask in prefill, or only in the first layer",
    ),
    _decode(
        "GREEDY", FORMULA,
        "Greedy generation with the cache MUST choose the tokens that complete-prefix passes choose, from "
        "the same logits within the bound, until the capacity is used up.",
        "the row of another token taken as the newest, a token decoded twice or not at all",
        f"{SYSTEM}; chapter 37 on complete generation",
    ),
    _decode(
        "OWN-PASS", SESSION,
        "Every cached logit row MUST agree with the implementation's own complete-prefix pass within the "
        "bound.",
        "the uncached path uses other positions, another mask or other weights than the cached one",
        needs=FULL_PREFIX,
    ),
    _decode(
        "OWN-PASS-APART", ("decoder", "self-agreement"),
        "A complete-prefix pass without the cache MUST neither read nor change any session: what goes on "
        "after it is bit for bit what goes on without it.",
        "a position counter in the model that the uncached pass reads or moves",
        FORGE,
        FULL_PREFIX,
    ),
    _decode(
        "SELF-AGREEMENT", ("self-agreement",),
        "Cached logits MUST agree with the implementation's own complete-prefix pass within 168 roundings of "
        "the declared arithmetic (1e-5 in float32), relative to the largest logit where that exceeds 1.",
        "a token in the wrong place, a position miscounted, a write that never happens",
        "System 2, the six-token check and its gate of 1e-5",
        FULL_PREFIX,
    ),
)  # fmt: skip

OPTIONS = (
    _decode(
        "LEARNED", FORMULA,
        "A decoder with a learned position table MUST add the row of the absolute position and rotate "
        "nothing, which shows a constant offset that rotary positions hide.",
        "positions one off, positions from 0 in every call, a counter that a reset forgets",
        "options for library models; fault class POS-OFFSET-ZERO",
        seen=False,
    ),
    _decode(
        "UNTIED", FORMULA,
        "A decoder with a free head MUST compute logits with it, not with the token embedding.",
        "the embedding used as the head whatever is configured",
        "options for library models",
        seen=False,
    ),
    _decode(
        "BIASES", FORMULA,
        "A decoder with biases MUST add them in all seven projections of every block.",
        "the key's bias left out because softmax nearly hides it",
        "options for library models",
        seen=False,
    ),
    _decode(
        "HALF-PAIRS", FORMULA,
        "Rotary pairs MUST be those that are configured, adjacent features or halves of a head.",
        "the other pairing, which a head of two features hides",
        "RoPE in its two customary layouts",
        seen=False,
    ),
    _decode(
        "GROUPED", ("core", "decoder", "gqa"),
        "Query head h MUST read key/value head h // (H/G), shown with 6 query and 3 key/value heads; every "
        "layer holds G heads.",
        "heads tiled instead of repeated, heads repeated before they are stored",
        "Shazeer 2019; grouped-query attention",
        frozenset({"gqa"}),
        seen=False,
    ),
    _decode(
        "MULTI-QUERY", ("core", "decoder", "gqa"),
        "One key/value head MUST serve all query heads of every layer.",
        "a cache that holds H heads",
        "Shazeer 2019, multi-query attention",
        frozenset({"gqa"}),
        seen=False,
    ),
    _decode(
        "CHUNKS", ("chunks",),
        "A prompt given in any of the 32 partitions of six tokens to prefill MUST give the logits and cached "
        "rows of the exact pass within the bound.",
        "mask aligned to the top left, positions from 0 in every call",
        FORGE,
        frozenset({"chunks"}),
    ),
)  # fmt: skip

LIFE = (
    _decode(
        "RESET-LENGTH", ALL, "Reset MUST set the length of every layer to 0.", "only layer 0 is reset",
    ),
    _decode(
        "RESET-STORAGE", SESSION,
        "Reset MUST keep every layer's storage where it is and every stored byte as it is.",
        "a reset that builds new caches or clears them",
        needs=STORAGE, fixed=True,
    ),
    _decode(
        "RESET-REPLAY", ALL,
        "Replaying the same tokens after a reset MUST give identical logits and cached rows, bit for bit.",
        "a position counter, a phase or one layer's length that survives the reset",
    ),
    _decode(
        "RESET-INFLUENCE", ALL,
        "After a reset other tokens MUST give, bit for bit and in every layer, what a fresh session gives.",
        "rows up to an old length still read, a counter that runs on",
    ),
    _decode(
        "RESET-PHASE", SESSION,
        "After a reset a decode MUST be refused as prefill_required until a prompt has been taken.",
        "a flag of the finished prefill that the reset forgets",
    ),
    _decode(
        "RESET-WORK", SESSION,
        "Reset MUST zero the work counts.", "counts kept over the reset", needs=frozenset({"work"}),
    ),
    _decode(
        "LANES", ALL,
        "A lane MUST NOT depend on another lane: permuted lanes give permuted logits, and a change in one "
        "lane moves no other beyond the bound.",
        "lane 0 written to all, a mean over lanes",
    ),
    _decode(
        "SESSIONS", ALL,
        "Two sessions of one model, used alternately, MUST each behave as if alone.",
        "a position counter or a cache that lives in the model",
    ),
    _decode(
        "TOKENS", ALL,
        "A call MUST NOT change the token array that it is given, and a later change of that array MUST "
        "change nothing in the session.",
        "the caller's array kept as the history",
    ),
    _decode(
        "STORAGE", SESSION,
        "The storage of every layer MUST stay at the same addresses over every call.",
        "rows joined by concatenation", needs=STORAGE, fixed=True,
    ),
    _decode(
        "LAYERS-APART", SESSION,
        "The storage of each layer MUST be memory of its own.",
        "two layers that share one cache", needs=STORAGE,
    ),
    _decode(
        "WORK", SESSION,
        "Work counts MUST be tokens taken, rows written once per layer, 3*L projected rows a token, B*L*H*n "
        "cached scores for every new length n and B*L*H*n^2 complete-prefix scores for every call.",
        "counts that leave out the prompt, a layer or a lane",
        needs=frozenset({"work"}),
    ),
)  # fmt: skip


def _refuse(
    name: str, sentence: str, look: str = "", *, needs: frozenset[str] = frozenset(), fixed: bool = False
) -> Requirement:
    return _decode(f"REFUSE-{name}", SESSION, sentence, look, f"{SYSTEM}, rejections", needs, fixed=fixed)


UPDATE = frozenset({"update_parameters"})
REWIRE = frozenset({"rewire"})

REFUSALS = (
    _refuse("EMPTY-PROMPT", "A prompt without a token MUST be refused as empty_prompt."),
    _refuse(
        "LONG-PROMPT",
        "A prompt longer than the capacity MUST be refused as prompt_exceeds_capacity; one of exactly the "
        "capacity is taken.",
        "the prompt cut off silently", fixed=True,
    ),
    _refuse(
        "TOKEN",
        "A token outside the vocabulary, too large or negative, MUST be refused as token_out_of_vocabulary, "
        "in prefill and in decode.",
        "negative tokens read from the end of the embedding",
    ),
    _refuse(
        "FORM",
        "Tokens of another rank, or for another number of lanes, MUST be refused as input_rank or "
        "input_batch_mismatch.",
    ),
    _refuse(
        "SECOND-PREFILL",
        "A prefill into a session that holds rows MUST be refused as prefill_not_empty.",
        "a second prompt joined to the first, or put in its place",
    ),
    _refuse(
        "DECODE-FIRST",
        "A decode without a completed prefill MUST be refused as prefill_required.",
        "a phase that is read from the length of one layer",
    ),
    _refuse(
        "FULL",
        "A decode into a full session MUST be refused as full.",
        "a clipped slot, a ring, a silent drop", fixed=True,
    ),
    _refuse(
        "CLOSED",
        "A prefill, decode or reset of a closed session MUST be refused as session_closed.",
    ),
    _refuse(
        "LOCKED",
        "While a session is open an update of its model's parameters MUST be refused as parameters_locked "
        "and change nothing, and the session goes on.",
        "the lock looked at only while a call runs, or only for the newest session", needs=UPDATE,
    ),
    _refuse(
        "STALE",
        "Caches that were filled before an update of parameters MUST NOT be decoded on: stale_parameters, or "
        "session_closed where closing has ended the session; a new session works.",
        "no revision kept, only one block's parameters compared, revisions read anew when opened",
        needs=UPDATE,
    ),
    _refuse(
        "MODEL",
        "Caches reopened on a rebuilt model of equal numbers MUST be refused as model_mismatch, whichever "
        "parameter was rebuilt.",
        "numbers compared instead of identities, only attention weights compared", needs=REWIRE,
    ),
    _refuse(
        "CONFIGURATION",
        "Caches reopened on the same parameters under another configuration MUST be refused as "
        "configuration_mismatch.",
        "only shapes compared; the norm's epsilon or the rotary base left out", needs=REWIRE,
    ),
    _refuse(
        "ORDER",
        "A call that breaks two rules at once MUST be refused for the one that stands first: empty prompt, "
        "prompt too long, token, not empty, prefill required, full. The order is this kit's own.",
    ),
    _refuse(
        "BLOCK",
        "A finite token that overflows in the last block alone MUST be refused as non_finite, every layer "
        "left as it was.",
        "each layer's rows written as soon as its block is done",
    ),
    _refuse(
        "NORM",
        "A finite token that overflows in the final norm alone MUST be refused as non_finite, every layer "
        "left as it was.",
        "rows committed before the final norm",
    ),
    _refuse(
        "HEAD",
        "A finite token of which a single logit overflows MUST be refused as non_finite, every layer left "
        "as it was.",
        "rows committed before the output head, logits not looked at",
    ),
    Requirement(
        id="DECODE-REFUSE-DETAILS",
        sentence="Where a rejection carries a parameter index or revisions, they MUST be those of the first "
        "parameter that differs.",
        levels=("decoder",), profiles=SESSION, needs=UPDATE | REWIRE, where_observable=True,
        source=f"{SYSTEM}, rejections",
    ),
)  # fmt: skip


def _atomic(
    name: str, sentence: str, look: str, *, profiles: tuple[str, ...] = FORMULA, bytes_too: bool = False
) -> Requirement:
    return _decode(
        f"ATOMIC-{name}", profiles, sentence, look, f"{SYSTEM}: all layers or none",
        STORAGE if bytes_too else frozenset(), seen=bytes_too, fixed=bytes_too,
    )  # fmt: skip


ATOMIC = (
    _atomic(
        "LENGTH", "A refused call MUST leave the length of every layer as it was.",
        "the first layers committed before a later one failed",
    ),
    _atomic(
        "ROWS", "A refused call MUST leave the logical rows of every layer as they were, bit for bit.",
        "a newest row overwritten before the refusal",
    ),
    _atomic(
        "STORAGE", "A refused call MUST leave every layer's storage where it was and every byte as it was.",
        "rows written into their slot before the last check", profiles=SESSION, bytes_too=True,
    ),
    _atomic(
        "FUTURE",
        "After a refused call what is still lawful MUST go on bit for bit as in an untouched twin.",
        "a counter, a phase or a lock moved by the refused call",
    ),
    _atomic(
        "WORK", "A refused call MUST leave the work counts as they were.",
        "counts raised before the refusal", profiles=SESSION,
    ),
)  # fmt: skip


def _inside(name: str, sentence: str, reason: str, test: str) -> Requirement:
    return Requirement(
        id=f"DECODE-INSIDE-{name}", sentence=sentence, levels=("decoder",), profiles=(), source=SYSTEM,
        untestable=reason, covered_by=test,
    )  # fmt: skip


UNTESTABLE = (
    _inside(
        "LAYER-MISMATCH",
        "Caches of unequal length, batch size or capacity MUST be refused as layer_mismatch.",
        "a session builds its caches itself, so that unequal ones cannot be made from outside",
        "tests/test_reference_decoder_rejections.py::test_layers_of_another_size_are_refused",
    ),
    _inside(
        "TICKET",
        "A prepared row whose cache has changed since MUST be refused with its layer named, and nothing is "
        "written in any layer.",
        "preparing and committing are one call from outside",
        "tests/test_reference_decoder_rejections.py::"
        "test_a_ticket_that_no_longer_matches_names_its_layer_and_no_layer_is_written",
    ),
    _inside(
        "STOP",
        "Greedy generation MUST stop at the end-of-sequence token, else at the token limit, else at the "
        "context limit, asked in this order after each token.",
        "an adapter hands out logits; choosing tokens and stopping is the caller's part",
        "tests/test_reference_decoder_generate.py::test_the_three_stop_rules_in_order",
    ),
)

REQUIREMENTS = (*AGREEMENT, *OPTIONS, *LIFE, *REFUSALS, *ATOMIC, *UNTESTABLE)
