"""A trace of a decoder under construction: one model, its sessions, what each holds, what must come next.

Every session reads one stream of tokens from its opening, or its last reset, to the next reset, so that the
expected values of a whole life are computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from conformance.adapter import Declaration
from conformance.budget.decoder_shapes import decoder_shapes
from conformance.scenarios.decoder import OPTIONS
from conformance.scenarios.decoder_material import (
    FORMULA,
    DecoderRows,
    Filing,
    Tokens,
    decoded,
    decoder_config,
    decoder_parameters,
    prefilled,
    token_block,
)
from conformance.scenarios.decoder_refusals import untouched
from conformance.search.decoder_state import DecoderLife, DecoderSetting
from conformance.trace.expect import Array, Expectation, InputsKept, Refused, Unchanged
from conformance.trace.model import CacheSpec, Operation, Source, Trace

MOST_SESSIONS = 3

LONGEST = 6
"""Tokens of a stream: one more than the largest capacity."""


@dataclass
class DecoderScript:
    """Writes steps with expectations. One model `a`; sessions `c0`, `c1`, ...

    shared: two sessions have been open at once. From then on whatever goes wrong is filed as theirs: a
    decoder whose position counter lives in the model can serve one.
    """

    declaration: Declaration
    setting: DecoderSetting
    shared: bool = False
    lives: dict[str, DecoderLife] = field(default_factory=dict)
    steps: list[Operation] = field(default_factory=list)
    layers: dict[str, Source] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = self.setting
        chosen: dict[str, object] = {"heads": own.heads, "kv_heads": own.heads, "head_width": own.head_width}
        for name in own.options:
            chosen |= OPTIONS[name][1]
        self.config = replace(decoder_config(**chosen), layers=own.blocks)  # type: ignore[arg-type]
        self.parameters: Mapping[str, Array] = decoder_parameters(self.config, shift=own.weights)
        self.names = tuple(decoder_shapes(self.config))
        self.revisions = [0] * len(self.names)
        self.layers["a"] = Source(self.config, self.parameters)
        self.lives["c0"] = self.fresh(own.stream)

    # -- what stands ------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """Of the step that is written next."""
        return f"step {len(self.steps)}"

    @property
    def knows_rules(self) -> bool:
        """Of a decoder of its own architecture only what holds for all decoders is asked."""
        return self.declaration.weights == "given"

    @property
    def is_exact(self) -> bool:
        """Whether a row too many must be refused."""
        return self.declaration.capacity == "exact"

    @property
    def limit(self) -> int:
        """Rows that a session may be given."""
        return LONGEST if self.declaration.capacity == "growing" else self.setting.capacity

    def tokens(self, stream: int) -> Tokens:
        """One of four streams [B,T]; in the odd ones every token stands twice in a row."""
        block = token_block(self.config, self.setting.lanes, LONGEST, shift=stream // 2)
        return block[:, np.arange(LONGEST) // 2] if stream % 2 else block

    def fresh(self, stream: int) -> DecoderLife:
        """A new session under the parameters as they stand."""
        rows = DecoderRows(self.declaration, self.config, self.tokens(stream), self.parameters)
        return DecoderLife(rows, tuple(self.revisions))

    def name(self, choice: int) -> str:
        """One of the sessions."""
        names = sorted(self.lives)
        return names[choice % len(names)]

    def open_names(self) -> list[str]:
        """The sessions that are open."""
        return [name for name, life in self.lives.items() if life.is_open]

    def stale(self, name: str) -> int | None:
        """Index of the first parameter that was updated since the session was opened."""
        bound = self.lives[name].revisions
        changed = (i for i, (a, b) in enumerate(zip(bound, self.revisions, strict=True)) if a != b)
        return next(changed, None)

    def filing(self, op: str, start: int) -> Filing:
        """Where wrong numbers of a call are filed."""
        if op == "prefill" and start:
            return Filing.all("DECODE-CHUNKS")
        options = self.setting.options
        return Filing.all(OPTIONS[options[0]][0]) if options else FORMULA

    # -- calls ------------------------------------------------------------------------------------------

    def call(self, op: str, name: str, tokens: Tokens, extra: tuple[Expectation, ...] = ()) -> None:
        """A prefill of tokens [B,T] or a decode of tokens [B,1], accepted or refused as the state demands."""
        life = self.lives[name]
        offences = self.closed(name) or life.offences(op, tokens, self.setting.capacity)
        if offences:
            kinds = offences[0].kinds
            refusal = offences[0] if len(offences) == 1 else Refused("DECODE-REFUSE-ORDER", kinds)
            self.refuse(op, name, tokens[:, 0] if op == "decode" else tokens, refusal)
            return
        start = life.length
        stop = start + tokens.shape[1]
        if stop > self.limit:
            return
        life.calls.append((start, stop))
        # How the tokens of a prompt in parts are counted is nowhere said.
        life.counts = life.counts and not (op == "prefill" and start)
        more = (InputsKept("DECODE-TOKENS"), *life.counted(), *extra)
        filed = self.filing(op, start)
        if op == "prefill":
            step = prefilled(life.rows, name, start, stop, label=self.label, filed=filed, extra=more)
        else:
            step = decoded(life.rows, name, start, label=self.label, filed=filed, extra=more)
        life.labels.append(self.label)
        self.steps.append(_refiled(step) if self.shared else step)

    def closed(self, name: str) -> list[Refused]:
        """The refusal of any call on a closed session, before all others; none of an open one."""
        if self.lives[name].is_open:
            return []
        if self.stale(name) is None:
            return [Refused("DECODE-REFUSE-CLOSED", ("session_closed",))]
        return [Refused("DECODE-REFUSE-STALE", ("stale_parameters", "session_closed"))]

    def refuse(self, op: str, name: str, tokens: Tokens | None, refusal: Refused) -> None:
        """A call that must be refused and leave everything as it is; closed sessions are not looked at."""
        if not self.knows_rules:
            return
        life = self.lives[name]
        kept = untouched(life.rows, name) if life.is_open else ()
        self.steps.append(
            Operation(
                op=op, target=name, inputs={} if tokens is None else {"tokens": tokens}, label=self.label,
                watch=life.rows.watch(name) if life.is_open else (), expect=(refusal, *kept),
            )
        )  # fmt: skip

    # -- anything else ----------------------------------------------------------------------------------

    def do(self, op: str, target: str = "", *expect: Expectation, **more: object) -> None:
        """Any other operation; `more` are the parts of an `Operation`."""
        self.steps.append(Operation(op=op, target=target, label=self.label, expect=expect, **more))  # type: ignore[arg-type]

    def watch_open(self) -> tuple[str, ...]:
        """Every layer of every open session."""
        names = self.open_names()
        return self.lives[names[0]].rows.watch(*names) if names else ()

    def kept(self, length: str, rows: str) -> tuple[Unchanged, ...]:
        """No layer of an open session moves."""
        return tuple(Unchanged(name, length=length, rows=rows) for name in self.watch_open())

    def finish(self, identifier: str) -> Trace:
        """The trace. Where options cannot be built, nothing is said."""
        spec = CacheSpec("a", self.setting.lanes, self.setting.capacity)
        return Trace(
            id=identifier, level="decoder", about="found by search", layers=dict(self.layers),
            caches={"c0": spec}, steps=tuple(self.steps), optional=bool(self.setting.options),
        )  # fmt: skip


def _refiled(step: Operation) -> Operation:
    """The step with everything that it is to show filed under sessions."""
    expect = (replace(e, requirement="DECODE-SESSIONS") for e in step.expect if not isinstance(e, Unchanged))
    return replace(step, expect=tuple(expect))
