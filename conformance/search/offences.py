"""Calls that must be refused, and updates that make caches stale."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios import construction, non_finite
from conformance.scenarios.material import layer_config, layer_parameters
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
