"""The classes of faults: what users saw, and which classes no killer is planted for, with the reason.

Classes with a number of reports were drawn from 281 public reports in 127 repositories; the others are the
kit's own, for rules that no report is known to have broken, or whose faults were planted by hand.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FaultClass:
    """A class of faults. symptom: what one sees; reports: how many public reports show it, 0 for our own."""

    id: str
    symptom: str
    reports: int = 0


def _public(*entries: tuple[str, int, str]) -> tuple[FaultClass, ...]:
    return tuple(FaultClass(name, symptom, reports) for name, reports, symptom in entries)


PUBLIC = _public(
    ("POS-OFFSET-ZERO", 9, "the prompt reads well and the first generated token is already off"),
    ("POS-OFFSET-DRIFT", 8, "a conversation decays from its second turn or its third token on"),
    ("POS-OFFSET-PHYSICAL", 3, "output decays once the window has been filled"),
    ("POS-READ-AFTER-UPDATE", 4, "every cached step differs slightly from the uncached pass"),
    ("KEY-INCOMPLETE", 7, "right until a second call of equal shape, then the answer of the first"),
    ("ROPE-TABLE-BOUND", 3, "fails, or repeats itself, near the end of the context"),
    ("ROPE-DOUBLE-APPLY", 2, "the more steps, the further old tokens are mistaken"),
    ("ROPE-PATH-MISMATCH", 4, "prefill and token-by-token decoding of one text disagree"),
    ("ROPE-DYNAMIC-BASE", 5, "wrong after the length at which the base changes, or after a long session"),
    ("ROPE-REROTATE-ON-MOVE", 10, "text breaks after a shift of the context"),
    ("BIAS-QUERY-LOCAL", 6, "with position biases, generated tokens have no sense of distance"),
    ("LEFTPAD-POSITION", 9, "short prompts of a padded batch differ from the same prompts alone"),
    ("MASK-TOPLEFT-CHUNK", 14, "a second chunk sees nearly nothing of the history"),
    ("MASK-SQUARE-SHAPE", 7, "a second prompt onto a filled cache fails with shapes, or is masked wrongly"),
    ("MASK-OFF-WITH-CACHE", 7, "a prompt in chunks looks into its own future"),
    ("MASK-UNWRITTEN-SLOTS", 4, "the same text gives other output with a larger cache"),
    ("LEN-CAPACITY-CONFUSION", 8, "right with a full cache only"),
    ("PADMASK-DROPPED-DECODE", 9, "padding leaks into generated tokens"),
    ("MASK-ALLROW-NAN", 5, "NaN spreads from a row without any visible token"),
    ("NAN-POISON-UNUSED", 9, "NaN out of uninitialised memory, now and then"),
    ("PATH-MATH-MISMATCH", 6, "the path of one token computes something else than the path of many"),
    ("WINDOW-OFF-BY-ONE", 2, "one token too many or too few in the window"),
    ("RING-FULL-BOUNDARY", 2, "one wrong token exactly when the window is full"),
    ("RING-PREFILL-OVERWRITE", 4, "prompts longer than the window are read wrongly at their start"),
    ("RING-CHUNK-EVICT-EARLY", 5, "the first tokens of each chunk miss their history"),
    ("WINDOW-MASK-LOCAL-INDEX", 4, "later chunks see more than the window"),
    ("RING-PHYS-VS-LOGICAL", 8, "scrambled text after a rollback behind a wrapped window"),
    ("CHUNK-VARIANCE", 4, "output depends on how the prompt was cut"),
    ("EVICT-GAP-CAUSAL", 2, "one token too many is seen after an eviction"),
    ("FULL-OVERRUN", 11, "beyond the context limit the newest tokens are lost without a word"),
    ("GROW-CORRUPT", 1, "garbage as soon as the buffer has grown"),
    ("WRITE-SKIPPED", 4, "a token that was read is forgotten"),
    ("WRITE-SLOT-SHIFT", 3, "one token of zeros, one token lost"),
    ("LAYOUT-STRIDE", 9, "right for one token or one head, garbage for several"),
    ("KV-SWAP", 1, "plausible nonsense: keys serve as values"),
    ("KDIM-VDIM", 3, "fails where keys and values are of different width"),
    ("GQA-REPEAT-ORDER", 6, "degraded text with grouped heads, right without"),
    ("UPDATE-NOT-VISIBLE", 8, "the model forgets everything between calls"),
    ("READONLY-MUTATION", 3, "a look at the cache changes what comes next"),
    ("ALIAS-SHARED-STATE", 4, "what one caller does appears in the history of another"),
    ("RESET-KEEPS-POSITION", 13, "the first conversation is right, the next one is off"),
    ("RESET-KEEPS-LENGTH", 2, "a new conversation attends to rows of zeros"),
    ("STALE-WEIGHTS", 4, "output mixes two versions of the model after an update"),
    ("FAIL-NOT-ATOMIC", 9, "after an error that was handled the session answers wrongly"),
    ("ROLLBACK-NOOP", 15, "rejected draft tokens stay in the history"),
    ("CROP-EDGE", 4, "cutting to nothing, or to what is there, does something else"),
    ("PREFIX-FULL-HIT", 6, "a prompt that is cached as a whole fails or gains a token"),
    ("SNAPSHOT-MISSING-STATE", 12, "a restored session continues from another place"),
    ("MOVE-DEFRAG", 4, "garbage after memory was compacted"),
    ("BATCH-REORDER", 8, "beams continue the text of other beams"),
    ("FORK-NO-COW", 4, "two continuations write into each other"),
    ("CROSS-ATTN-STALE", 6, "the second input is answered as the first"),
    ("BLOCK-REUSE-LEAK", 5, "text of another request appears"),
    ("BATCH-ROW-BOOKKEEPING", 8, "a batch of several lengths damages its shorter rows"),
    ("BLOCK-TAIL", 9, "wrong for some prompt lengths only"),
    ("LAYER0-LENGTH", 7, "layers of other kinds take over the length of the first"),
    ("LAYER-INDEX", 5, "one layer reads the rows of another"),
    ("DTYPE-CACHE", 6, "small drift that no one asked for"),
    ("QUANT-RESIDUAL-FLUSH", 4, "a quantised cache that never quantises, or at once"),
    ("QUANT-GROUP-EDGE", 5, "constant or ragged rows break a quantised cache"),
    ("TOLERANCE-NOISE", 6, "a right implementation is accused because it sums in another order"),
    ("RACE-SYNC", 2, "wrong now and then, under load"),
)

OWN = tuple(
    FaultClass(name, symptom)
    for name, symptom in (
        ("AFTERMATH", "results agree to rounding but not to the bit once something has happened"),
        ("BIND-IDENTITY", "rows of one layer are joined with weights of another"),
        ("BIND-ROPE", "rows of one rotation are joined with rows of another"),
        ("CACHE-NOT-USED", "right, and as slow as without a cache"),
        ("CHECK-DROPPED", "a wrong call is answered, or breaks somewhere inside"),
        ("CHECK-ORDER", "a call that is wrong twice is refused for the wrong reason"),
        ("CONSTRUCTION", "a cache that cannot work is built, or one that can is refused"),
        ("CONSTRUCT-CLAMPED", "a cache of another size than was asked for is built"),
        ("DTYPE-ANGLE", "far positions lose digits"),
        ("DTYPE-SOFTMAX", "weights lose digits that the rest keeps"),
        ("EVIDENCE", "what a step tells is not what it computed"),
        ("FORK-LOSES-STATE", "a fork starts from something else than its origin"),
        ("GQA-WRONG-HEAD", "query heads read the wrong key/value head"),
        ("HEAD-ORDER", "heads are exchanged, and the output is plausible nonsense"),
        ("LANE-MIXED", "a batch gives other answers than its members alone"),
        ("LEARNT-BY-HEART", "passes the golden files and nothing else"),
        ("LONG-HISTORY", "right for a while, wrong behind some power of two"),
        ("MASK-CHUNK-NEIGHBOURS", "tokens of one chunk do not see each other"),
        ("MASK-FINITE-FILL", "masked tokens shine through where scores are large"),
        ("MASK-OFF-BY-ONE", "the newest token is unseen, or one of the future is seen"),
        ("MASK-WINDOW", "old tokens are unseen though no window was asked for"),
        ("NON-FINITE-ADMITTED", "one bad number, and every later answer is bad"),
        ("PROJECTION-LEFT-OUT", "the output is of another kind altogether"),
        ("REFUSAL-KIND", "a refusal names another reason"),
        ("REJECTION-DETAILS", "a refusal points at the wrong parameter"),
        ("RESET-KEEPS-ROWS", "rows of the last conversation show in the next"),
        ("RESET-REBINDS", "a reset makes stale rows look fresh"),
        ("RESET-TOUCHES-STORAGE", "a reset costs memory, time, or slots"),
        ("ROPE-FREQUENCY", "positions are told apart wrongly, far ones most"),
        ("ROPE-PAIRING", "weights of one convention are run under another"),
        ("ROPE-WRONG-ROWS", "rotation is missing, or where it should not be"),
        ("SCALE", "attention is too sharp or too flat"),
        ("SHAPE", "the caller's next operation fails, or broadcasts"),
        ("SOFTMAX-NORMALISATION", "weights do not add up to one"),
        ("SOFTMAX-STABILITY", "NaN where scores are large"),
        ("STORAGE-LAYOUT", "audits and other programs read the wrong numbers"),
        ("STORAGE-REPLACED", "memory is allocated and copied in every step"),
        ("WEIGHT-ORIENTATION", "weights are used transposed"),
        ("WORK-CLAIM", "the work that is told is not the work that was done"),
    )
)

CLASSES = {entry.id: entry for entry in (*PUBLIC, *OWN)}
"""Every class by its id."""

WINDOWS = "needs sliding windows or eviction, which no declaration can name yet"
PADDING = "needs padded batches with a mask of their own, which no level takes yet"

OUT_OF_SCOPE = {
    "POS-OFFSET-PHYSICAL": WINDOWS,
    "ROPE-REROTATE-ON-MOVE": WINDOWS,
    "WINDOW-OFF-BY-ONE": WINDOWS,
    "RING-FULL-BOUNDARY": WINDOWS,
    "RING-PREFILL-OVERWRITE": WINDOWS,
    "RING-CHUNK-EVICT-EARLY": WINDOWS,
    "WINDOW-MASK-LOCAL-INDEX": WINDOWS,
    "RING-PHYS-VS-LOGICAL": WINDOWS,
    "CHUNK-VARIANCE": WINDOWS,
    "EVICT-GAP-CAUSAL": WINDOWS,
    "LEFTPAD-POSITION": PADDING,
    "PADMASK-DROPPED-DECODE": PADDING,
    "MASK-ALLROW-NAN": PADDING,
    "BIAS-QUERY-LOCAL": "needs position biases; the positions of this contract are RoPE or a learned table",
    "MOVE-DEFRAG": "needs a call that compacts a pool, which no feature has yet",
    "CROSS-ATTN-STALE": "needs cross-attention, which no level has yet",
    "QUANT-RESIDUAL-FLUSH": "needs quantised stores, which no declaration can name yet",
    "QUANT-GROUP-EDGE": "needs quantised stores, which no declaration can name yet",
    "TOLERANCE-NOISE": "not a fault: the controls stand for it",
    "RACE-SYNC": "a matter of time, which a run of one thread cannot show",
}
"""Classes for which no killer is planted, each with the reason."""
