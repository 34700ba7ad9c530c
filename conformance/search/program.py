"""Programs: a setting and a list of commands, as hypothesis draws them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from conformance.adapter import Declaration, Precision
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


_CACHE, _SHIFT = st.integers(0, 3), st.integers(0, 9)


def _command(declaration: Declaration) -> st.SearchStrategy[Command]:
    """What a program is made of, at the level of a declaration."""
    append = st.builds(
        commands.Append,
        _CACHE,
        st.sampled_from([1, 1, 2, 3]),
        _SHIFT,
        st.sampled_from(_scales(declaration)),
        st.sampled_from([False, False, True]),
    )
    own = {"layer": _of_layers, "attention": _of_attention, "store": _of_stores}[declaration.levels[0]]
    # What hypothesis shrinks to comes first: single calls before whole lives.
    return st.one_of(append, append, append, *_of_every_level(append), *own(declaration))


def _scales(declaration: Declaration) -> list[float]:
    """Powers of two, which every dtype keeps; subnormal numbers only where all is float64."""
    wide = declaration.dtypes[0] == "float64" and declaration.precision == Precision()
    return [1.0, 8.0, 256.0, 0.125, 0.0, *([2.0**-1060] if wide else [])]


def _of_every_level(append: st.SearchStrategy[Command]) -> Iterator[st.SearchStrategy[Command]]:
    reset = st.builds(commands.Reset, _CACHE)
    truncate = st.builds(commands.Truncate, _CACHE, st.integers(-2, 7))
    fork = st.builds(commands.Fork, _CACHE)
    lanes = st.tuples(*[st.sampled_from([0, 1, 2, 3, 4, *commands.NO_LANES])] * 5)
    turned = st.permutations(range(5)).map(tuple)
    reorder = st.builds(commands.Reorder, _CACHE, st.one_of(turned, lanes))
    snapshot = st.builds(commands.OverwriteSnapshot, _CACHE)
    yield st.builds(commands.Fill, _CACHE, _SHIFT)
    yield from (reset, truncate, fork, reorder)
    yield st.builds(commands.Another)
    yield st.builds(commands.Poison, _CACHE, st.sampled_from([float("nan"), 1e300, float("inf")]))
    yield st.builds(commands.OverwriteInput, _CACHE)
    yield snapshot
    edit = st.one_of(truncate, fork, reorder, snapshot, reset)
    yield st.builds(commands.EyesShut, st.lists(append, min_size=1, max_size=2).map(tuple), edit)


def _of_attention(_: Declaration) -> Iterator[st.SearchStrategy[Command]]:
    """Of the levels that have outputs."""
    bad = st.sampled_from([float("nan"), float("inf")])
    yield st.builds(commands.NotFinite, _CACHE, st.integers(0, 2), bad)
    yield st.builds(commands.EmptyChunk, _CACHE)
    yield st.builds(commands.OverwriteStep, _CACHE)
    yield st.builds(commands.Probe, _CACHE, _SHIFT)
    yield st.builds(commands.Foresee, st.integers(2, 4), _SHIFT, st.sampled_from([1.0, 8.0, 2.0**17]))
    ways: list[commands.Way] = ["reset", "truncate"]
    yield st.builds(commands.Relive, st.sampled_from(ways), st.integers(0, 1), _SHIFT)
    scene = st.builds(commands.Scene, st.integers(0, 255))
    far = st.builds(
        commands.LongDecode,
        st.sampled_from([70, 130, 261]),
        st.sampled_from([1, 2]),
        st.just(1),
        st.sampled_from([100.0, 10000.0]),
    )
    # Mapped, so that the long decodes stay as rare as they are written here.
    yield st.one_of(scene, scene, scene, far).map(_itself)


def _of_layers(declaration: Declaration) -> Iterator[st.SearchStrategy[Command]]:
    wrong = st.sampled_from([False, False, True])
    yield st.builds(commands.Update, st.integers(0, 3), st.booleans())
    yield st.builds(commands.WrongForm, _CACHE, st.integers(0, 3))
    yield st.builds(commands.OtherLayer, _CACHE, st.integers(0, 5))
    yield st.builds(commands.OtherGeometry, _CACHE, st.integers(0, 2))
    yield st.builds(commands.WrongTwice, _CACHE, wrong, wrong, wrong, st.integers(0, 4))
    yield st.builds(commands.FullPrefix, _CACHE)
    yield st.builds(commands.OverwriteWeights)
    yield from _of_attention(declaration)
    if "paged" in declaration.features:
        yield _pool()


def _of_stores(_: Declaration) -> Iterator[st.SearchStrategy[Command]]:
    kinds: list[commands.TurnKind] = ["append", "append", "append", "append", "reset", "truncate", "reorder"]
    turn = st.builds(
        commands.Turn,
        st.sampled_from(kinds),
        st.integers(0, 2),
        st.sampled_from([1, 2, 3, 20, 130]),
        st.integers(0, 9),
    )
    life = st.builds(
        commands.StoreLife, st.sampled_from([2, 1, 5]), st.lists(turn, min_size=1, max_size=10).map(tuple)
    )
    yield from (life, life)


def _pool() -> st.SearchStrategy[Command]:
    """Blocks of a few rows, in pools that are too small, just large enough, or past one byte of numbers."""
    kinds: list[commands.MoveKind] = [
        "append", "append", "append", "fork", "truncate", "reset", "beside", "reorder",
    ]  # fmt: skip
    move = st.builds(commands.Move, st.sampled_from(kinds), st.integers(0, 2), st.integers(0, 9))
    return st.builds(
        commands.PoolLife,
        st.sampled_from([2, 3, 1, 4]),
        st.sampled_from([40, 12, 7, 5, 3, 600]),
        st.lists(move, min_size=1, max_size=10).map(tuple),
    )


def _itself(command: Command) -> Command:
    return command


AnyProgram = Program | DecoderProgram


def programs(declaration: Declaration) -> st.SearchStrategy[AnyProgram]:
    """Every program for a declaration."""
    if declaration.levels[0] == "decoder":
        return decoder_programs(declaration)
    steps = st.lists(_command(declaration), min_size=1, max_size=LONGEST).map(tuple)
    return st.builds(Program, settings_of(declaration), steps)
