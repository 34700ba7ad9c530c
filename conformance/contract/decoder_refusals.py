"""What a decoder session must refuse, and that a refused call leaves every layer as it was."""

from __future__ import annotations

from conformance.contract.decoder import FORMULA, SESSION, STORAGE, SYSTEM, decode_rule
from conformance.contract.model import Requirement


def _refuse(
    name: str, sentence: str, look: str = "", *, needs: frozenset[str] = frozenset(), fixed: bool = False
) -> Requirement:
    return decode_rule(f"REFUSE-{name}", SESSION, sentence, look, f"{SYSTEM}, rejections", needs, fixed=fixed)


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
        "prompt too long, token, not empty, prefill required, full; of caches that are reopened: model, "
        "configuration, revision. The order is this kit's own.",
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
    return decode_rule(
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
REQUIREMENTS = (*REFUSALS, *ATOMIC, *UNTESTABLE)
