"""Calls on one session of a decoder, lawful and unlawful."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conformance.scenarios.decoder_life import counted, reset
from conformance.scenarios.decoder_material import Tokens, like
from conformance.scenarios.decoder_refusals import FORM, with_token
from conformance.search.decoder_script import LONGEST, DecoderScript
from conformance.trace.expect import Custom, Expectation, Refused


@dataclass(frozen=True)
class Prefill:
    """A prompt of the stream, perhaps too long, empty, or with a last token that is none."""

    session: int
    count: int
    flaw: int

    def write(self, script: DecoderScript) -> None:
        """flaw: by how much the last token lies beyond the vocabulary, -1 below it, 0 for none."""
        name = script.name(self.session)
        life = script.lives[name]
        start = life.length if "chunks" in script.declaration.features else 0
        # One token too many is asked where its refusal has one name: of a fixed capacity, in one prompt.
        most = script.limit - start + (script.is_exact and not start)
        tokens = life.rows.tokens[:, start : start + min(self.count, most)]
        script.call("prefill", name, _flawed(script, tokens, self.flaw))


@dataclass(frozen=True)
class Decode:
    """The next token of the stream, or one that is none."""

    session: int
    flaw: int

    def write(self, script: DecoderScript) -> None:
        """flaw: as of `Prefill`."""
        name = script.name(self.session)
        life = script.lives[name]
        at = min(life.length, LONGEST - 1)
        script.call("decode", name, _flawed(script, life.rows.tokens[:, at : at + 1], self.flaw))


def _flawed(script: DecoderScript, tokens: Tokens, flaw: int) -> Tokens:
    bad = -1 if flaw < 0 else script.config.vocabulary + flaw - 1
    return with_token(tokens, bad) if flaw and tokens.size else tokens


@dataclass(frozen=True)
class Fill:
    """A prompt where there is none yet, then tokens until the session is full, and one more."""

    session: int
    prompt: int

    def write(self, script: DecoderScript) -> None:
        """The last one must be refused."""
        name = script.name(self.session)
        if not script.lives[name].length:
            Prefill(self.session, self.prompt, 0).write(script)
        for _ in range(script.setting.capacity - script.lives[name].length + 1):
            Decode(self.session, 0).write(script)


@dataclass(frozen=True)
class WrongForm:
    """Tokens of another rank or for another number of lanes, where nothing else is wrong."""

    session: int
    form: int

    def write(self, script: DecoderScript) -> None:
        """As a prompt of an empty session, or as the next token of another."""
        name = script.name(self.session)
        life = script.lives[name]
        if not life.is_open or life.length >= script.setting.capacity:
            return
        op, start = ("decode", life.length) if life.length else ("prefill", 0)
        right = life.rows.tokens[:, start] if start else life.rows.tokens[:, :2]
        less = right[:, None, None] if start else right[:, 0]
        forms = [right[..., None], less, np.concatenate([right, right[:1]]), right[:1], right[1:]]
        given = forms[self.form % len(forms)]
        if given.shape != right.shape:
            script.refuse(op, name, given, Refused("DECODE-REFUSE-FORM", FORM))


@dataclass(frozen=True)
class Reset:
    """Back to nothing, and on to a stream."""

    session: int
    stream: int

    def write(self, script: DecoderScript) -> None:
        """The binding stays; a closed session refuses."""
        name = script.name(self.session)
        life = script.lives[name]
        if not life.is_open:
            script.refuse("reset", name, None, script.closed(name)[0])
            return
        step = reset(life.rows, name, script.label)
        if "work" in script.declaration.features and script.knows_rules:
            none = Custom("DECODE-RESET-WORK", "counts", {"counts": counted(life.rows, [])})
            step = replace(step, expect=(*step.expect, none))
        script.steps.append(step)
        life.rows = life.rows.with_tokens(script.tokens(self.stream))
        life.calls, life.labels, life.was_reset, life.counts = [], [], True, True


@dataclass(frozen=True)
class Replay:
    """A prompt and two tokens, a reset, and the same again."""

    session: int
    prompt: int
    stream: int

    def write(self, script: DecoderScript) -> None:
        """Bit for bit alike."""
        name = script.name(self.session)
        if not script.lives[name].is_open:
            return
        labels: list[str] = []
        for again in range(2):
            Reset(self.session, self.stream).write(script)
            life, prompt = script.lives[name], min(self.prompt, script.setting.capacity)
            for stop in range(prompt, min(prompt + 2, script.limit) + 1):
                start = 0 if stop == prompt else stop - 1
                extra: tuple[Expectation, ...] = ()
                if again:
                    extra = like(life.rows, "DECODE-RESET-REPLAY", name, name, labels.pop(0))
                else:
                    labels.append(script.label)
                op = "decode" if start else "prefill"
                script.call(op, name, life.rows.tokens[:, start:stop], extra)


@dataclass(frozen=True)
class OverwriteInput:
    """The caller writes over the tokens of the last call, and makes the next one."""

    session: int

    def write(self, script: DecoderScript) -> None:
        """No session follows."""
        name = script.name(self.session)
        life = script.lives[name]
        if not life.length:
            Prefill(self.session, 2, 0).write(script)
        if life.labels and life.is_open:
            kept = script.kept("DECODE-TOKENS", "DECODE-TOKENS")
            step = {"step": life.labels[-1]}
            script.do("overwrite_input", name, *kept, arguments=step, watch=script.watch_open())
            Decode(self.session, 0).write(script)


@dataclass(frozen=True)
class OwnPass:
    """The pass without the cache, over what a session holds."""

    session: int

    def write(self, script: DecoderScript) -> None:
        """It agrees with the cached calls, and no session moves."""
        name = script.name(self.session)
        life = script.lives[name]
        if "full_prefix" not in script.declaration.features or script.stale(name) is not None:
            return
        if not life.length:
            return
        filed = "DECODE-SESSIONS" if script.shared else "DECODE-SELF-AGREEMENT"
        cached = {"steps": tuple(life.labels)}
        expect: list[Expectation] = [Custom(filed, "cached_stream_agrees", cached)]
        if script.knows_rules:
            value, gate = life.rows.logits(0, life.length)
            expect.append(life.rows.close("DECODE-OWN-PASS", "output", value, gate))
        expect += script.kept("DECODE-OWN-PASS-APART", "DECODE-OWN-PASS-APART")
        tokens = {"tokens": life.rows.tokens[:, : life.length]}
        script.do("full_prefix", "", *expect, layer="a", inputs=tokens, watch=script.watch_open())
