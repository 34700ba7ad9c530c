"""More sessions of one model, what ties them to its parameters, and decoders with weights of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from conformance.scenarios.decoder_material import decoder_parameters, decoder_rows
from conformance.scenarios.decoder_overflow import traces as overflows
from conformance.search.decoder_calls import Decode, Prefill
from conformance.search.decoder_scenes import embed
from conformance.search.decoder_script import MOST_SESSIONS, DecoderScript
from conformance.trace.expect import Accepted, Custom, Expectation, Length, Refused
from conformance.values import DecoderConfig

NONE = 99
"""A number beyond those of all parameters and settings."""


@dataclass(frozen=True)
class Another:
    """One more session of the same model."""

    stream: int

    def write(self, script: DecoderScript) -> None:
        """Up to a handful."""
        if len(script.lives) >= MOST_SESSIONS:
            return
        script.shared |= bool(script.open_names())
        name = f"c{len(script.lives)}"
        life = script.lives[name] = script.fresh(self.stream)
        size = {"batch_size": script.setting.lanes, "capacity": script.setting.capacity}
        watched = life.rows.watch(name)
        script.do("build", name, layer="a", arguments=size, watch=())
        script.do("observe", name, *_new(script, watched), watch=watched)


def _new(script: DecoderScript, layers: tuple[str, ...]) -> Iterator[Expectation]:
    yield from (Length("DECODE-LENGTH", 0, layer) for layer in layers)
    if "storage" in script.declaration.features and script.knows_rules:
        yield Custom("DECODE-LAYERS-APART", "layers_apart", {"layers": layers})


@dataclass(frozen=True)
class Alternate:
    """One more session, and then all in turn."""

    stream: int

    def write(self, script: DecoderScript) -> None:
        """A prompt for those that have none, a token for the others, twice."""
        Another(self.stream).write(script)
        for number in [*range(len(script.lives))] * 2:
            life = script.lives[script.name(number)]
            if life.is_open and life.length < script.setting.capacity:
                (Decode(number, 0) if life.length else Prefill(number, 2, 0)).write(script)


@dataclass(frozen=True)
class Close:
    """A session is given up."""

    session: int

    def write(self, script: DecoderScript) -> None:
        """Once."""
        name = script.name(self.session)
        if script.lives[name].is_open:
            script.do("close", name, watch=())
            script.lives[name].is_open = False


@dataclass(frozen=True)
class Update:
    """New numbers for one parameter, or the ones that it has."""

    parameter: int
    equal: bool

    def write(self, script: DecoderScript) -> None:
        """Refused while a session is open; otherwise every session opened before is stale."""
        if "update_parameters" not in script.declaration.features or not script.knows_rules:
            return
        index = self.parameter % len(script.names)
        name = script.names[index]
        changed = decoder_parameters(script.config, shift=4 + len(script.steps) + script.setting.weights)
        value = script.parameters[name] if self.equal else changed[name]
        inputs, watched = {name: value}, script.watch_open()
        if script.open_names():
            kept = script.kept("DECODE-ATOMIC-LENGTH", "DECODE-ATOMIC-ROWS")
            locked = Refused("DECODE-REFUSE-LOCKED", ("parameters_locked",))
            script.do("update", "", locked, *kept, layer="a", inputs=inputs, watch=watched)
            return
        script.do("update", "", Accepted("DECODE-REFUSE-LOCKED"), layer="a", inputs=inputs, watch=())
        script.parameters = {**script.parameters, name: value}
        script.revisions[index] += 1


@dataclass(frozen=True)
class Reopen:
    """A session is closed, where it is open, and its caches are opened again.

    updated, rebuilt: the parameters that are updated and rebuilt before, -1 the last one, NONE none; setting:
    which setting is changed, likewise. Where nothing was changed since the opening the session goes on.
    """

    session: int
    updated: int
    equal: bool
    rebuilt: int
    setting: int

    def write(self, script: DecoderScript) -> None:
        """Model comes before configuration, configuration before revision."""
        if "rewire" not in script.declaration.features or not script.knows_rules:
            return
        Close(self.session).write(script)
        if self.updated != NONE:
            Update(self.updated, self.equal).write(script)
        name, model = script.name(self.session), "a"
        fresh = script.names[self.rebuilt :][:1]
        config = dict(enumerate(_configurations(script.config))).get(self.setting)
        if fresh or config:
            model = f"m{len(script.steps)}"
            change = {"name": model, "config": config, "fresh": fresh}
            script.do("rewire", "", layer="a", arguments=change, watch=())
        offences: list[Refused] = []
        if fresh:
            offences.append(Refused("DECODE-REFUSE-MODEL", ("model_mismatch",)))
        if config:
            offences.append(Refused("DECODE-REFUSE-CONFIGURATION", ("configuration_mismatch",)))
        if (index := script.stale(name)) is not None:
            details = {"parameter": index}
            offences.append(Refused("DECODE-REFUSE-STALE", ("stale_parameters",), details))
        if len(offences) > 1:
            offences = [replace(offences[0], requirement="DECODE-REFUSE-ORDER")]
        wanted: list[Expectation] = [*offences] or [Accepted("DECODE-REFUSE-MODEL")]
        script.do("reopen", name, *wanted, layer=model, watch=())
        if not offences:
            script.shared |= bool(script.open_names())
            script.lives[name].is_open, script.lives[name].counts = True, False


def _configurations(config: DecoderConfig) -> Iterator[DecoderConfig]:
    """One setting changed at a time, as little as it can be; the parameters fit all of them."""
    rope, ulp = config.layer.rope, 1.0 + 2.0**-52
    yield replace(config, norm_epsilon=config.norm_epsilon * ulp)
    rotations = [replace(rope, base=rope.base * ulp)]
    if config.positions == "rope":
        rotations.append(replace(rope, max_positions=rope.max_positions + 1))
    for changed in rotations:
        yield replace(config, layer=replace(config.layer, rope=changed))


@dataclass(frozen=True)
class Scene:
    """A finite token that overflows in one stage, in a decoder with weights of its own."""

    number: int

    def write(self, script: DecoderScript) -> None:
        """One of them, whole."""
        scenes = list(overflows(decoder_rows(script.declaration))) if script.knows_rules else []
        if scenes:
            embed(script, scenes[self.number % len(scenes)])
