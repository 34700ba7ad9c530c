"""What search may do. Each command writes one or two steps into a script, or none where it makes no sense."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios import construction, non_finite
from conformance.scenarios.material import StoreRows, appended, huge, layer_config, layer_parameters
from conformance.scenarios.storage import unchanged
from conformance.search.script import MOST_CACHES, Script
from conformance.trace.expect import Custom, Refused, Same, Unchanged
from conformance.trace.model import Operation, Source, Trace
from conformance.values import PARAMETERS, LayerConfig

EMPTY = ("single_token_required", "empty_chunk")
"""Either kind names an input without rows rightly."""


@dataclass(frozen=True)
class Append:
    """Lawful rows; more than fit must be refused."""

    cache: int
    count: int
    shift: int
    scale: float

    def write(self, script: Script) -> None:
        """One row where chunks are not declared."""
        several = "chunks" in script.declaration.features or script.level == "store"
        script.append(
            script.name(self.cache), script.block(self.count if several else 1, self.shift, self.scale)
        )


@dataclass(frozen=True)
class Fill:
    """Rows one by one until the cache is full, and one more."""

    cache: int
    shift: int

    def write(self, script: Script) -> None:
        """The last one must be refused."""
        name = script.name(self.cache)
        for n in range(script.setting.capacity - script.lives[name].length + 1):
            script.append(name, script.block(1, self.shift + n, 1.0))


@dataclass(frozen=True)
class Reset:
    """Back to nothing."""

    cache: int

    def write(self, script: Script) -> None:
        """The binding stays."""
        name = script.name(self.cache)
        life = script.lives[name]
        life.history = script.fresh().history
        kept = Unchanged(name, storage="RESET-BYTES", addresses="RESET-ADDRESSES", capacity="RESET-CAPACITY")
        fixed = (kept,) if "storage" in script.declaration.features else ()
        script.do("reset", name, script.length("RESET-LENGTH", name), *fixed)


@dataclass(frozen=True)
class Poison:
    """Numbers into unused slots."""

    cache: int
    value: float

    def write(self, script: Script) -> None:
        """Nothing that is used may change."""
        if "poison" in script.declaration.features:
            name, most = script.name(self.cache), huge(script.declaration)
            value = min(self.value, most) if isfinite(self.value) else self.value
            script.do(
                "poison", name, Unchanged(name, length="STORE-UNUSED", rows="STORE-UNUSED"), value=value
            )


@dataclass(frozen=True)
class OverwriteInput:
    """The caller writes over the array of the last append."""

    cache: int

    def write(self, script: Script) -> None:
        """The cache must not follow."""
        name = script.name(self.cache)
        if script.lives[name].last:
            kept = Unchanged(name, length="ISOLATE-CALLER-ARRAY", rows="ISOLATE-CALLER-ARRAY")
            script.do("overwrite_input", name, kept, step=script.lives[name].last)


@dataclass(frozen=True)
class OverwriteSnapshot:
    """The caller writes over a snapshot."""

    cache: int

    def write(self, script: Script) -> None:
        """The cache must not follow."""
        name = script.name(self.cache)
        if "snapshot" not in script.declaration.features or not script.lives[name].length:
            return
        own = "KEEP-HANDED-OUT" if script.level == "store" else "ISOLATE-HANDED-OUT"
        label = f"step {len(script.steps)}"
        script.do("observe", name, snapshot=True)
        script.do("overwrite_output", name, Unchanged(name, length=own, rows=own), step=label)


@dataclass(frozen=True)
class Another:
    """One more cache of the same layer."""

    def write(self, script: Script) -> None:
        """Up to a handful."""
        if len(script.lives) >= MOST_CACHES:
            return
        name = f"c{len(script.lives)}"
        script.lives[name] = script.fresh()
        lanes, capacity = script.setting.lanes, script.setting.capacity
        script.steps.append(
            Operation(
                op="build", target=name, layer="a", label=f"step {len(script.steps)}",
                arguments={"batch_size": lanes, "capacity": capacity},
                expect=(script.length("STORE-LENGTH", name),),
            )
        )  # fmt: skip


@dataclass(frozen=True)
class Truncate:
    """To a length that may or may not be there."""

    cache: int
    length: int

    def write(self, script: Script) -> None:
        """Refused beyond what is held."""
        if "truncate" not in script.declaration.features:
            return
        name = script.name(self.cache)
        life = script.lives[name]
        if not 0 <= self.length <= life.length:
            refusal = Refused("TRUNCATE-REFUSED", ("invalid_length",))
            script.do("truncate", name, refusal, unchanged(name), length=self.length)
            return
        life.history = {key: rows[..., : self.length, :] for key, rows in life.history.items()}
        script.do("truncate", name, script.length("TRUNCATE-LENGTH", name), length=self.length)


@dataclass(frozen=True)
class Fork:
    """A second life with the same past."""

    cache: int

    def write(self, script: Script) -> None:
        """Both go on apart."""
        if "fork" not in script.declaration.features or len(script.lives) >= MOST_CACHES:
            return
        origin, name = script.name(self.cache), f"c{len(script.lives)}"
        script.lives[name] = replace(script.lives[origin], last="")
        script.do("fork", origin, script.length("FORK-EQUAL", name), name=name)


@dataclass(frozen=True)
class Reorder:
    """Lanes taken from others."""

    cache: int
    lanes: tuple[int, ...]

    def write(self, script: Script) -> None:
        """Refused where a lane is not there."""
        if "reorder" not in script.declaration.features:
            return
        name, count = script.name(self.cache), script.setting.lanes
        lanes = self.lanes[:count]
        life = script.lives[name]
        if any(not 0 <= lane < count for lane in lanes):
            refusal = Refused("REORDER-REFUSED", ("lane_out_of_range",))
            script.do("reorder", name, refusal, unchanged(name), lanes=lanes)
            return
        life.history = {key: rows[list(lanes)] for key, rows in life.history.items()}
        moved = tuple(
            Same("REORDER-LANES", part, life.last, lanes=tuple(range(count)), other_lanes=lanes)
            for part in ("keys", "values")
            if life.last and life.last == f"step {len(script.steps) - 1}"
        )
        script.do("reorder", name, script.length("REORDER-LANES", name), *moved, lanes=lanes)


@dataclass(frozen=True)
class Update:
    """Weights in place, perhaps with the numbers that they had."""

    parameter: int
    equal: bool

    def write(self, script: Script) -> None:
        """Every cache bound before is stale from now on."""
        if "update_parameters" not in script.declaration.features:
            return
        name = PARAMETERS[self.parameter]
        value = getattr(script.parameters, name)
        value = value if self.equal else np.roll(value, 1, axis=0) * 0.5
        script.parameters = replace(script.parameters, **{name: value})
        script.revisions[self.parameter] += 1
        script.steps.append(
            Operation(
                op="update", layer="a", inputs={name: value}, watch=(), label=f"step {len(script.steps)}"
            )
        )


@dataclass(frozen=True)
class WrongForm:
    """Rows that no cache may take."""

    cache: int
    form: int

    def write(self, script: Script) -> None:
        """Checks 1 to 4; level layer only."""
        if script.level != "layer":
            return
        rows = script.block(1, 1, 1.0)["rows"]
        forms = (
            (rows[:, 0], "REJECT-RANK", ("input_rank",)),
            (rows[:, :0], "REJECT-TOKENS", EMPTY),
            (np.concatenate([rows, rows[:1]]), "REJECT-BATCH", ("input_batch_mismatch",)),
            (rows[..., 1:], "REJECT-WIDTH", ("input_width_mismatch",)),
        )
        given, requirement, kinds = forms[self.form]
        script.refuse(script.name(self.cache), {"rows": given}, Refused(requirement, kinds))


@dataclass(frozen=True)
class EmptyChunk:
    """No rows at all."""

    cache: int

    def write(self, script: Script) -> None:
        """Refused, or taken as nothing; what is stale or foreign is refused for that."""
        name = script.name(self.cache)
        if "chunks" not in script.declaration.features or script.stale(name) is not None:
            return
        wanted = Custom("CHUNK-EMPTY", "refused_or_unchanged", {"kinds": EMPTY})
        script.steps.append(
            Operation(
                op="append", target=name, inputs=script.block(0, 1, 1.0), label=f"step {len(script.steps)}",
                expect=(wanted, unchanged(name)),
            )
        )  # fmt: skip


@dataclass(frozen=True)
class NotFinite:
    """A NaN or an infinity somewhere in a row."""

    cache: int
    lane: int
    value: float

    def write(self, script: Script) -> None:
        """Refused, unless something earlier is wrong."""
        if script.level == "store":
            return
        name = script.name(self.cache)
        block = script.block(1, 2, 1.0)
        first = next(iter(block))
        block[first][(self.lane % script.setting.lanes, *(0,) * (block[first].ndim - 2), 0)] = self.value
        refusal = script.refusal(name, 1) or Refused("REJECT-NON-FINITE-INPUT", ("non_finite",))
        script.refuse(name, block, refusal)


@dataclass(frozen=True)
class OtherLayer:
    """The rows of a cache with a layer of which one parameter was rebuilt, or the RoPE settings changed."""

    cache: int
    change: int

    def write(self, script: Script) -> None:
        """Identity comes before revision, revision before RoPE, RoPE before full."""
        if script.level != "layer" or "rewire" not in script.declaration.features:
            return
        name, other = script.name(self.cache), f"l{len(script.steps)}"
        config: LayerConfig | None = None
        fresh: tuple[str, ...] = ()
        refusal = Refused("BIND-ROPE-BASE", ("cache_rope_mismatch",))
        if self.change < len(PARAMETERS):
            fresh = (PARAMETERS[self.change],)
            refusal = Refused("BIND-IDENTITY", ("cache_layer_mismatch",))
        else:
            rope = script.config.rope
            ulp = replace(rope, base=float(np.nextafter(rope.base, 1e9)))
            more = replace(rope, max_positions=rope.max_positions + 1)
            config = replace(script.config, rope=ulp if self.change == len(PARAMETERS) else more)
            if script.stale(name) is not None:
                refusal = script.refusal(name, 1) or refusal
        script.steps.append(
            Operation(
                op="rewire", layer="a", watch=(), label=f"step {len(script.steps)}",
                arguments={"name": other, "config": config, "fresh": fresh},
            )
        )  # fmt: skip
        script.refuse(name, script.block(1, 3, 1.0), refusal, layer=other)


@dataclass(frozen=True)
class OtherGeometry:
    """A layer of another width, head count or key/value head count, with rows that fit it."""

    cache: int
    which: int

    def write(self, script: Script) -> None:
        """Geometry comes before identity, and all of it before the capacity."""
        own = script.setting
        if script.level != "layer":
            return
        choices = [
            (layer_config(own.heads * 2, own.kv_heads * 2, own.head_width), "cache_model_width_mismatch"),
        ]
        if own.head_width % 4 == 0:
            halved = layer_config(own.heads * 2, own.kv_heads * 2, own.head_width // 2)
            choices.append((halved, "cache_head_count_mismatch"))
        if "gqa" in script.declaration.features and own.heads > 1:
            kv_heads = 1 if own.kv_heads > 1 else own.heads
            choices.append((layer_config(own.heads, kv_heads, own.head_width), "cache_head_count_mismatch"))
        config, kind = choices[self.which % len(choices)]
        name = f"geometry {len(script.steps)}"
        script.layers[name] = Source(config, layer_parameters(config))
        rows = np.full((own.lanes, 1, config.model_width), 0.5)
        refusal = Refused("BIND-MODEL-WIDTH" if "width" in kind else "BIND-HEADS", (kind,))
        script.refuse(script.name(self.cache), {"rows": rows}, refusal, layer=name)


@dataclass(frozen=True)
class Replay:
    """Two lives of the same rows with a reset between them."""

    cache: int
    shift: int

    def write(self, script: Script) -> None:
        """Bit for bit alike."""
        name = script.name(self.cache)
        if script.stale(name) is not None:
            return
        Reset(self.cache).write(script)
        labels = []
        for n in range(2):
            labels.append(f"step {len(script.steps)}")
            script.append(name, script.block(1, self.shift + n, 1.0))
        Reset(self.cache).write(script)
        for n, label in enumerate(labels):
            script.append(name, script.block(1, self.shift + n, 1.0))
            fields = script.rows(script.lives[name].history).fields
            same = tuple(Same("RESET-REPLAY", part, label, bound=1e-12) for part in fields)
            script.steps[-1] = replace(script.steps[-1], expect=(*script.steps[-1].expect, *same))


@dataclass(frozen=True)
class Scene:
    """A scenario that needs weights or sizes of its own: overflow in one stage, refusals of construction."""

    number: int

    def write(self, script: Script) -> None:
        """One of them, whole."""
        scenes = _scenes(script.declaration)
        if scenes:
            script.embed(scenes[self.number % len(scenes)])


@lru_cache(maxsize=4)
def _scenes_of(level: str, features: frozenset[str], capacity: str) -> tuple[Trace, ...]:
    declaration = Declaration(name="scenes", levels=(level,), features=features, capacity=capacity)  # type: ignore[arg-type]
    every = (*non_finite.traces(declaration), *construction.traces(declaration))
    return tuple(t for t in every if not t.optional and t.needs <= features)


def _scenes(declaration: Declaration) -> tuple[Trace, ...]:
    if declaration.dtypes[0] != "float64":
        return ()
    return _scenes_of(declaration.levels[0], declaration.features, declaration.capacity)


@dataclass(frozen=True)
class Probe:
    """One stored value row changed from outside, for the length of one append."""

    cache: int
    shift: int

    def write(self, script: Script) -> None:
        """The output moves with it; then the row is put back."""
        name = script.name(self.cache)
        life, own = script.lives[name], script.setting
        probed = script.level in ("layer", "attention") and "storage" in script.declaration.features
        if not probed or life.length < 1 or script.refusal(name, 1) is not None:
            return
        start = life.length
        block = script.block(1, self.shift, 1.0)
        history = {k: np.concatenate([life.history[k], block[k]], axis=-2) for k in block}
        rows = script.rows(history)
        if isinstance(rows, StoreRows):
            return
        numbers = np.linspace(3.0, -2.0, own.head_width)
        lane, head, slot = own.lanes - 1, own.kv_heads - 1, start - 1
        value, gate = rows.changed_value(start + 1, slot, lane, head, numbers)
        place = {
            "buffer": 1, "lane": lane, "head": head, "slot": slot, "kv_heads": own.kv_heads,
            "capacity": own.capacity,
        }  # fmt: skip
        label = f"step {len(script.steps)}"
        script.steps.append(
            Operation(
                op="overwrite_row", target=name, inputs={"numbers": numbers}, arguments=place, label=label
            )
        )
        wanted = {
            "write": label,
            "value": value,
            "bound": gate,
            "unmoved": rows.field("output", start, start + 1)[0],
        }
        moved = Custom("REUSE-STORED-ROW", "moves_as_formula", wanted)
        last = f"step {len(script.steps)}"
        script.steps.append(appended(rows, name, start, start + 1, label=last, quiet=True, extra=(moved,)))
        kept = rows.field("values", 0, start)[0][lane, head, slot]
        script.steps.append(
            Operation(
                op="overwrite_row", target=name, inputs={"numbers": kept}, arguments=place,
                label=f"step {len(script.steps)}",
            )
        )  # fmt: skip
        life.history, life.last = history, last


Command = (
    Append | Fill | Reset | Poison | OverwriteInput | OverwriteSnapshot | Another | Truncate | Fork | Reorder
    | Update | WrongForm | NotFinite | OtherLayer | OtherGeometry | EmptyChunk | Replay | Scene | Probe
)  # fmt: skip
