"""What a session of a decoder has lived through, and which rules the next call breaks."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.scenarios.decoder_life import counted
from conformance.scenarios.decoder_material import DecoderRows, Tokens
from conformance.trace.expect import Custom, Expectation, Refused

SCORES = ("cached_scores", "complete_prefix_scores")
"""The work counts that are fixed for any number of lanes."""


@dataclass(frozen=True)
class DecoderSetting:
    """The geometry of a script. options: names of `OPTIONS`; their first one files what goes wrong."""

    lanes: int
    capacity: int
    blocks: int
    heads: int
    head_width: int
    options: tuple[str, ...]
    weights: int
    stream: int


@dataclass
class DecoderLife:
    """A session: its stream under the weights of its opening, and the calls taken since the last reset.

    counts: False where the contract does not fix the work counts, as after a reopening.
    """

    rows: DecoderRows
    revisions: tuple[int, ...]
    calls: list[tuple[int, int]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    is_open: bool = True
    was_reset: bool = False
    counts: bool = True

    @property
    def length(self) -> int:
        """Rows held."""
        return self.calls[-1][1] if self.calls else 0

    def offences(self, op: str, tokens: Tokens, capacity: int) -> list[Refused]:
        """Every rule that a call of the right form breaks, in the order of the contract."""
        found: list[Refused] = []
        declaration, count, held = self.rows.declaration, tokens.shape[1], self.length
        is_exact, is_whole = declaration.capacity == "exact", "chunks" not in declaration.features
        if op == "prefill" and not count:
            found.append(Refused("DECODE-REFUSE-EMPTY-PROMPT", ("empty_prompt",)))
        if op == "prefill" and is_exact and count > capacity:
            found.append(Refused("DECODE-REFUSE-LONG-PROMPT", ("prompt_exceeds_capacity",)))
        if ((tokens < 0) | (tokens >= self.rows.config.vocabulary)).any():
            found.append(Refused("DECODE-REFUSE-TOKEN", ("token_out_of_vocabulary",)))
        if op == "prefill" and held and is_whole:
            found.append(Refused("DECODE-REFUSE-SECOND-PREFILL", ("prefill_not_empty",)))
        if op == "decode" and not held:
            filed = "DECODE-RESET-PHASE" if self.was_reset else "DECODE-REFUSE-DECODE-FIRST"
            found.append(Refused(filed, ("prefill_required",)))
        if op == "decode" and is_exact and held >= capacity:
            found.append(Refused("DECODE-REFUSE-FULL", ("full",)))
        return found

    def counted(self) -> tuple[Expectation, ...]:
        """The work counts as they stand; of several lanes only scores are fixed."""
        declaration, lanes = self.rows.declaration, self.rows.lanes
        if "work" not in declaration.features or not (self.counts and self.rows.has_formula):
            return ()
        counts = counted(self.rows, self.calls)
        if lanes > 1:
            counts = {name: lanes * counts[name] for name in SCORES}
        return (Custom("DECODE-WORK", "counts", {"counts": counts}),)
