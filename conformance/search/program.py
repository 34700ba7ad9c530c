"""Programs: a setting and a list of commands, as hypothesis draws them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from conformance.adapter import Declaration
from conformance.dialect import spoken
from conformance.scenarios.material import head_width
from conformance.search import commands
from conformance.search.commands import Command
from conformance.search.decoder_program import DecoderProgram, decoder_programs
from conformance.search.script import Script, Setting
from conformance.trace.model import Trace

LONGEST = 14


@dataclass(frozen=True)
class Program:
    """What hypothesis draws and shrinks."""

    setting: Setting
    commands: tuple[Command, ...]

    def trace(self, declaration: Declaration, identifier: str) -> Trace:
        """The trace with everything that must be observed."""
        script = Script(declaration, self.setting)
        for command in self.commands:
            command.write(script)
        made = replace(script.finish(identifier), dtype=declaration.dtypes[0])
        return spoken(made, declaration)


def settings_of(declaration: Declaration) -> st.SearchStrategy[Setting]:
    """Small geometries; grouped heads only where declared."""
    grouped = "gqa" in declaration.features or declaration.levels[0] == "store"
    heads = [(2, 2), (1, 1), (3, 3)] + ([(4, 2), (6, 3), (2, 1), (6, 2)] if grouped else [])
    return st.builds(
        lambda lanes, capacity, heads, width, base, pairing, weights: Setting(
            lanes, capacity, heads[0], heads[1], head_width(declaration, width), base, pairing, weights
        ),
        st.sampled_from([1, 2, 3, 5]),
        st.sampled_from([4, 2, 6, 9]),
        st.sampled_from(heads),
        st.sampled_from([4, 2, 6, 10]),
        st.sampled_from([100.0, 10000.0, 7.0, 137.5]),
        st.sampled_from(["adjacent", "half"]),
        st.integers(0, 3),
    )


def _command(declaration: Declaration) -> st.SearchStrategy[Command]:
    cache = st.integers(0, 3)
    shift, values = st.integers(0, 9), st.sampled_from([float("nan"), 1e300, float("inf")])
    append = st.builds(
        commands.Append,
        cache,
        st.sampled_from([1, 1, 2, 3]),
        shift,
        st.sampled_from([1.0, 8.0, 256.0, 0.125, 0.0]),
        st.sampled_from([False, False, True]),
    )
    truncate = st.builds(commands.Truncate, cache, st.integers(-2, 7))
    fork = st.builds(commands.Fork, cache)
    reorder = st.builds(commands.Reorder, cache, st.tuples(*[st.integers(-1, 4)] * 5))
    snapshot = st.builds(commands.OverwriteSnapshot, cache)
    edit = st.one_of(truncate, fork, reorder, snapshot, st.builds(commands.Reset, cache))
    return st.one_of(
        *([_pool()] if "paged" in declaration.features else []),
        append,
        append,
        append,
        st.builds(commands.Fill, cache, shift),
        st.builds(commands.Reset, cache),
        st.builds(commands.Poison, cache, values),
        st.builds(commands.OverwriteInput, cache),
        snapshot,
        st.builds(commands.Another),
        truncate,
        fork,
        reorder,
        st.builds(commands.EyesShut, st.lists(append, min_size=1, max_size=2).map(tuple), edit),
        st.builds(commands.Foresee, st.integers(2, 4), shift, st.sampled_from([1.0, 8.0, 2.0**17])),
        st.builds(commands.Update, st.integers(0, 3), st.booleans()),
        st.builds(commands.WrongForm, cache, st.integers(0, 3)),
        st.builds(
            commands.NotFinite, cache, st.integers(0, 2), st.sampled_from([float("nan"), float("inf")])
        ),
        st.builds(commands.OtherLayer, cache, st.integers(0, 5)),
        st.builds(commands.OtherGeometry, cache, st.integers(0, 2)),
        st.builds(commands.Replay, cache, shift),
        st.builds(commands.EmptyChunk, cache),
        st.builds(commands.Probe, cache, shift),
        st.builds(commands.Scene, st.integers(0, 63)),
    )


def _pool() -> st.SearchStrategy[Command]:
    """Blocks of a few rows, in pools that are too small, just large enough, or past one byte of numbers."""
    kinds: list[commands.MoveKind] = [
        "append",
        "append",
        "append",
        "fork",
        "truncate",
        "reset",
        "beside",
        "reorder",
    ]
    move = st.builds(commands.Move, st.sampled_from(kinds), st.integers(0, 2), st.integers(0, 9))
    return st.builds(
        commands.PoolLife,
        st.sampled_from([2, 3, 1, 4]),
        st.sampled_from([40, 12, 7, 5, 3, 600]),
        st.lists(move, min_size=1, max_size=10).map(tuple),
    )


AnyProgram = Program | DecoderProgram


def programs(declaration: Declaration) -> st.SearchStrategy[AnyProgram]:
    """Every program for a declaration."""
    if declaration.levels[0] == "decoder":
        return decoder_programs(declaration)
    steps = st.lists(_command(declaration), min_size=1, max_size=LONGEST).map(tuple)
    return st.builds(Program, settings_of(declaration), steps)
