"""Calls that must be refused, and updates that make caches stale."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios import construction, non_finite
from conformance.scenarios.material import fitting, layer_config, layer_parameters
from conformance.scenarios.storage import unchanged
from conformance.search.script import Script
from conformance.trace.expect import Custom, Refused
from conformance.trace.model import Operation, Source, Trace
from conformance.values import PARAMETERS, LayerConfig

EMPTY = ("single_token_required", "empty_chunk")
"""Either kind names an input without rows rightly."""


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
        value = value if self.equal else fitting(np.roll(value, 1, axis=0) / 3.0, script.declaration)
        script.parameters = replace(script.parameters, **{name: value})
        script.revisions[self.parameter] += 1
        script.put(Operation(op="update", layer="a", inputs={name: value}, watch=()))


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
class WrongTwice:
    """A call that may break several rules at once, on a cache that may be stale or full as well.

    foreign: the call names a layer with another parameter (1), other RoPE settings (2), twice the heads (3),
    or heads of half the width (4); with 0 the cache's own.
    """

    cache: int
    rank: bool
    lanes: bool
    width: bool
    foreign: int

    def write(self, script: Script) -> None:
        """The first rule in the order of the checks is the one that is reported."""
        if script.level != "layer" or "rewire" not in script.declaration.features:
            return
        name, own = script.name(self.cache), script.setting
        layer, config, foreign = self._layer(script)
        shape = (own.lanes + self.lanes, 1, config.model_width + self.width)
        rows = np.full((shape[0], shape[2]) if self.rank else shape, 0.5)
        state = script.refusal(name, 1)
        stale = script.stale(name) is not None
        kinds = [
            "input_rank" if self.rank else "",
            "input_batch_mismatch" if self.lanes else "",
            "input_width_mismatch" if self.width else "",
            foreign if foreign != "cache_rope_mismatch" else "",
            "cache_layer_revision_mismatch" if stale else "",
            foreign,
            state.kinds[0] if state is not None else "",
        ]
        first = next((kind for kind in kinds if kind), None)
        if first is not None:
            script.refuse(name, {"rows": rows}, Refused("REJECT-ORDER", (first,)), layer=layer)

    def _layer(self, script: Script) -> tuple[str, LayerConfig, str]:
        """Name and configuration of the layer that the call names, and why that is refused."""
        own = script.setting
        if self.foreign == 3 or (self.foreign == 4 and own.head_width % 4 == 0):
            width = own.head_width if self.foreign == 3 else own.head_width // 2
            config = layer_config(own.heads * 2, own.kv_heads * 2, width)
            kind = "cache_model_width_mismatch" if self.foreign == 3 else "cache_head_count_mismatch"
            return _of_geometry(script, config), config, kind
        if self.foreign not in (1, 2):
            return "a", script.config, ""
        rope = replace(script.config.rope, base=script.config.rope.base * 2)
        turned = replace(script.config, rope=rope) if self.foreign == 2 else None
        other = _rewired(script, turned, ("key",) if self.foreign == 1 else ())
        return other, script.config, "cache_layer_mismatch" if self.foreign == 1 else "cache_rope_mismatch"


def _rewired(script: Script, config: LayerConfig | None, fresh: tuple[str, ...]) -> str:
    """A layer that shares the parameters of `a` but for the fresh ones; its name."""
    name = f"l{len(script.steps)}"
    arguments = {"name": name, "config": config, "fresh": fresh}
    script.put(Operation(op="rewire", layer="a", watch=(), arguments=arguments))
    return name


def _of_geometry(script: Script, config: LayerConfig) -> str:
    """A layer with parameters of its own; its name."""
    name = f"geometry {len(script.steps)}"
    script.layers[name] = Source(config, layer_parameters(config))
    return name


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
        expect = (wanted, unchanged(name))
        script.put(Operation(op="append", target=name, inputs=script.block(0, 1, 1.0), expect=expect))


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
        name = script.name(self.cache)
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
        script.refuse(name, script.block(1, 3, 1.0), refusal, layer=_rewired(script, config, fresh))


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
        name = _of_geometry(script, config)
        rows = np.full((own.lanes, 1, config.model_width), 0.5)
        refusal = Refused("BIND-MODEL-WIDTH" if "width" in kind else "BIND-HEADS", (kind,))
        script.refuse(script.name(self.cache), {"rows": rows}, refusal, layer=name)


@dataclass(frozen=True)
class Scene:
    """A scenario that needs weights or sizes of its own: overflow in one stage, refusals of construction."""

    number: int

    def write(self, script: Script) -> None:
        """One of them, whole."""
        scenes = _scenes(script.declaration)
        if scenes:
            script.embed(scenes[self.number % len(scenes)])


_kept: dict[str, tuple[Trace, ...]] = {}


def _scenes(declaration: Declaration) -> tuple[Trace, ...]:
    """What a declaration says of keys, precision and capacity holds in a scene too; made once."""
    if declaration.dtypes[0] != "float64":
        return ()
    plain = replace(declaration, name="scenes", version="", rejections={}, features=frozenset())
    key = f"{plain}{sorted(declaration.features)}"
    if key not in _kept:
        every = (*non_finite.traces(declaration), *construction.traces(declaration))
        _kept[key] = tuple(t for t in every if not t.optional and t.needs <= declaration.features)
    return _kept[key]
