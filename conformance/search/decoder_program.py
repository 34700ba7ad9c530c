"""Programs for decoders: a setting and a list of commands, as hypothesis draws them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from conformance.adapter import Declaration
from conformance.dialect import spoken
from conformance.scenarios.decoder import OPTIONS
from conformance.scenarios.material import head_width
from conformance.search import decoder_calls as calls
from conformance.search import decoder_sessions as sessions
from conformance.search.decoder_script import DecoderScript
from conformance.search.decoder_state import DecoderSetting
from conformance.trace.model import Trace

DecoderCommand = (
    calls.Prefill | calls.Decode | calls.Fill | calls.WrongForm | calls.Reset | calls.Replay
    | calls.OverwriteInput | calls.OwnPass
    | sessions.Another | sessions.Alternate | sessions.Close | sessions.Update | sessions.Reopen
    | sessions.Scene
)  # fmt: skip
"""What search may do with a decoder. Each command writes a few steps into a script, or none."""

MOST_COMMANDS = 12
SEVERAL = (("untied", "biases", "learned"), ("half-pairs", "untied", "biases"))
"""Options together; those of grouped heads stand alone."""
MOST_PARAMETERS = 40


@dataclass(frozen=True)
class DecoderProgram:
    """What hypothesis draws and shrinks."""

    setting: DecoderSetting
    commands: tuple[DecoderCommand, ...]

    def trace(self, declaration: Declaration, identifier: str) -> Trace:
        """The trace with everything that must be observed."""
        script = DecoderScript(declaration, self.setting)
        for command in self.commands:
            command.write(script)
        made = replace(script.finish(identifier), dtype=declaration.dtypes[0])
        return spoken(made, declaration)


def decoder_programs(declaration: Declaration) -> st.SearchStrategy[DecoderProgram]:
    """Every program for a declaration of level decoder."""
    steps = st.lists(_command(), min_size=1, max_size=MOST_COMMANDS).map(tuple)
    return st.builds(DecoderProgram, _settings(declaration), steps)


def _settings(declaration: Declaration) -> st.SearchStrategy[DecoderSetting]:
    """Small decoders; grouped heads only where declared, options only of the contract's decoder."""
    grouped = "gqa" in declaration.features
    alone = [(name,) for name, (_, chosen) in OPTIONS.items() if grouped or "kv_heads" not in chosen]
    options = [(), *alone, *SEVERAL] if declaration.weights == "given" else [()]
    return st.builds(
        DecoderSetting,
        lanes=st.sampled_from([2, 1, 3]),
        capacity=st.sampled_from([4, 3, 5, 2]),
        blocks=st.sampled_from([2, 3, 1]),
        heads=st.sampled_from([2, 1, 3]),
        head_width=st.sampled_from([head_width(declaration, wanted) for wanted in (4, 2)]),
        options=st.sampled_from(options),
        weights=st.integers(0, 1),
        stream=st.integers(0, 3),
    )


def _command() -> st.SearchStrategy[DecoderCommand]:
    session, stream = st.integers(0, 2), st.integers(0, 3)
    prompt, flaw = st.sampled_from([2, 1, 3]), st.sampled_from([1, -1, 1001])
    some = st.one_of(st.sampled_from([0, -1]), st.integers(0, MOST_PARAMETERS))
    perhaps = st.one_of(st.just(sessions.NONE), some)
    unchanged, setting = st.just(sessions.NONE), st.sampled_from([sessions.NONE, 0, 1, 2])
    prefill = st.builds(calls.Prefill, session, prompt, st.just(0))
    decode = st.builds(calls.Decode, session, st.just(0))
    return st.one_of(
        prefill,
        decode,
        decode,
        st.builds(calls.Prefill, session, st.integers(0, 6), st.one_of(st.just(0), flaw)),
        st.builds(calls.Decode, session, flaw),
        st.builds(calls.Fill, session, prompt),
        st.builds(calls.WrongForm, session, st.integers(0, 4)),
        st.builds(calls.Reset, session, stream),
        st.builds(calls.Replay, session, prompt, stream),
        st.builds(sessions.Another, stream),
        st.builds(sessions.Alternate, stream),
        st.builds(sessions.Close, session),
        st.builds(sessions.Update, some, st.booleans()),
        st.builds(sessions.Reopen, session, some, st.booleans(), unchanged, unchanged),
        st.builds(sessions.Reopen, session, perhaps, st.booleans(), perhaps, setting),
        st.builds(calls.OverwriteInput, session),
        st.builds(calls.OwnPass, session),
        st.builds(sessions.Scene, st.integers(0, 7)),
    )
