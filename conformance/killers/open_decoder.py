"""A clean decoder session whose every stage is a method of its own: the base of decoder killers.

Every block's rows are prepared, then norm and head; only then are the rows of all layers written. It favours
one idea a method over speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.budget.decoder_shapes import decoder_shapes
from conformance.killers.open_decoder_state import (
    BINDING,
    DECODE,
    PREFILL,
    WORK,
    Array,
    Call,
    Lock,
    OpenModel,
    OpenSession,
    finite,
)
from conformance.killers.open_state import Node, frequencies, turns
from conformance.rejections import Rejected
from conformance.values import DecoderConfig, Observation


class OpenDecoderAdapter:
    """Level decoder with every feature of System 3; the clean class passes all that it declares."""

    name = "open-decoder"
    prefill_checks: tuple[Any, ...] = PREFILL
    decode_checks: tuple[Any, ...] = DECODE
    binding_checks: tuple[Any, ...] = BINDING

    @property
    def declaration(self) -> Declaration:
        """As the class stands."""
        features = frozenset({"gqa", "full_prefix", "update_parameters", "rewire", "work", "storage"})
        return Declaration(name=self.name, levels=("decoder",), features=features)

    # -- building ---------------------------------------------------------------------------------------

    def build_model(self, config: DecoderConfig, parameters: Mapping[str, Array]) -> OpenModel:
        """A model with fresh nodes."""
        return OpenModel(config, {name: Node(parameters[name]) for name in decoder_shapes(config)}, Lock())

    def open(self, model: OpenModel, batch_size: int, capacity: int) -> OpenSession:
        """An empty session that locks the parameters."""
        if capacity > model.config.layer.rope.max_positions:
            raise Rejected("capacity_exceeds_positions", f"{capacity} rows")
        keys, values = self.allocate(model.config, batch_size, capacity)
        revisions = {name: node.revision for name, node in model.nodes.items()}
        session = OpenSession(
            model, batch_size, capacity, keys, values, [0] * model.config.layers, dict(model.nodes),
            revisions, model.config,
        )  # fmt: skip
        model.lock.sessions.append(session)
        return session

    def allocate(self, config: DecoderConfig, lanes: int, capacity: int) -> tuple[list[Array], list[Array]]:
        """Buffers of every layer, +0.0 everywhere."""
        shape = (lanes, self.stored_heads(config), capacity, config.layer.head_width)
        return [np.zeros(shape) for _ in range(config.layers)], [
            np.zeros(shape) for _ in range(config.layers)
        ]

    def stored_heads(self, config: DecoderConfig) -> int:
        """G."""
        return config.layer.kv_heads

    # -- calls ------------------------------------------------------------------------------------------

    def prefill(self, session: OpenSession, tokens: Array) -> Array:
        """A prompt [B,T]; logits [B,T,V]."""
        for check in self.prefill_checks:
            check(session, tokens)
        return self.take(session, tokens, is_prefill=True)

    def decode(self, session: OpenSession, tokens: Array) -> Array:
        """Tokens [B]; logits [B,1,V]."""
        given = tokens[:, None] if tokens.ndim == 1 else tokens[..., None]
        for check in self.decode_checks:
            check(session, given)
        return self.take(session, given, is_prefill=False)

    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        """Compute everything, then write everything."""
        call = Call(session, np.asarray(tokens), self.held(session), is_prefill)
        logits = self.compute(call)
        self.commit(call)
        return logits

    def held(self, session: OpenSession) -> int:
        """Rows held before this call."""
        return session.lengths[0]

    def compute(self, call: Call) -> Array:
        """Logits; the candidate rows of every layer stand in the call."""
        rows = self.embed(call)
        for block in range(call.model.config.layers):
            rows = self.block(call, block, rows)
        normed = finite("final_norm", self.norm(call.model, "final_norm", rows))
        return self.logits(call, normed)

    def logits(self, call: Call, normed: Array) -> Array:
        """The head on rows [B,T,D]."""
        return finite("head", normed @ self.head(call.model))

    def head(self, model: OpenModel) -> Array:
        """[D,V]."""
        return model.value("token_embedding.weight").T if model.config.tied else model.value("head.weight")

    def positions(self, call: Call) -> Array:
        """Absolute positions of the new rows."""
        return call.start + np.arange(call.count)

    def embed(self, call: Call) -> Array:
        """Rows that enter the first block."""
        rows: Array = call.model.value("token_embedding.weight")[call.tokens]
        if call.model.config.positions == "learned":
            rows = rows + call.model.value("position_embedding.weight")[self.positions(call)]
        return rows

    def block(self, call: Call, block: int, rows: Array) -> Array:
        """Residuals around attention and feed-forward."""
        at = f"blocks.{block}"
        normed = self.norm(call.model, f"{at}.attention_norm", rows)
        rows = rows + self.attention(call, block, normed)
        normed = self.norm(call.model, f"{at}.ffn_norm", rows)
        return finite(at, rows + self.feed_forward(call, at, normed))

    def epsilon(self, config: DecoderConfig) -> float:
        """Of the norm."""
        return config.norm_epsilon

    def norm(self, model: OpenModel, name: str, rows: Array) -> Array:
        """RMSNorm."""
        mean = np.add.reduce(rows * rows, axis=-1, keepdims=True) / rows.shape[-1]
        normed: Array = rows / np.sqrt(mean + self.epsilon(model.config)) * model.value(f"{name}.gain")
        return normed

    def project(self, model: OpenModel, name: str, rows: Array) -> Array:
        """`x @ W`, plus a bias where there is one."""
        product: Array = rows @ model.value(f"{name}.weight")
        return product + model.value(f"{name}.bias") if model.config.biases else product

    def feed_forward(self, call: Call, at: str, normed: Array) -> Array:
        """SwiGLU."""
        gate, up = (self.project(call.model, f"{at}.ffn.{name}", normed) for name in ("gate", "up"))
        return self.project(call.model, f"{at}.ffn.down", finite("hidden", self.activation(gate) * up))

    def activation(self, gate: Array) -> Array:
        """silu."""
        silu: Array = gate / (1.0 + np.exp(-gate))
        return silu

    # -- attention --------------------------------------------------------------------------------------

    def attention(self, call: Call, block: int, normed: Array) -> Array:
        """Attention of the new rows over the retained ones and themselves."""
        config, at = call.model.config, f"blocks.{block}.attention"
        query = self.heads(self.project(call.model, f"{at}.query", normed), config.layer.heads)
        key = self.heads(self.project(call.model, f"{at}.key", normed), config.layer.kv_heads)
        value = self.heads(self.project(call.model, f"{at}.value", normed), config.layer.kv_heads)
        if self.rotates(config):
            query, key = (self.rotate(call, heads) for heads in (query, key))
        call.candidates.append((key, value))
        keys = np.concatenate([self.retained(call, block, "keys"), key], axis=2)
        values = np.concatenate([self.retained(call, block, "values"), value], axis=2)
        scores = query @ self.grouped(config, keys).swapaxes(-1, -2) / np.sqrt(config.layer.head_width)
        visible = self.visible(call, block, scores.shape[-1])
        finite("score", np.where(visible, scores, 0.0))
        weights = np.exp(np.where(visible, scores, -np.inf) - self.largest(scores, visible))
        mixed = weights / weights.sum(axis=-1, keepdims=True) @ self.grouped(config, values)
        lanes, heads, count, width = mixed.shape
        merged = mixed.transpose(0, 2, 1, 3).reshape(lanes, count, heads * width)
        return self.project(call.model, f"{at}.output", merged)

    def heads(self, flat: Array, heads: int) -> Array:
        """[B,T,h*d] to [B,h,T,d]."""
        lanes, count, width = flat.shape
        return flat.reshape(lanes, count, heads, width // heads).transpose(0, 2, 1, 3)

    def rotates(self, config: DecoderConfig) -> bool:
        """Whether queries and keys are rotated."""
        return config.positions == "rope"

    def pairing(self, config: DecoderConfig) -> str:
        """Which features make a pair."""
        return config.layer.rope.pairing

    def rotate(self, call: Call, heads: Array) -> Array:
        """Heads [B,h,T,d] turned at the positions of the call."""
        config = call.model.config
        width = config.layer.head_width
        cosine, sine = turns(self.positions(call)[:, None], frequencies(config.layer.rope.base, width))
        half = width // 2
        adjacent = self.pairing(config) == "adjacent"
        left, right = (
            (slice(0, None, 2), slice(1, None, 2)) if adjacent else (slice(0, half), slice(half, None))
        )
        turned = np.empty_like(heads)
        turned[..., left] = heads[..., left] * cosine - heads[..., right] * sine
        turned[..., right] = heads[..., left] * sine + heads[..., right] * cosine
        return turned

    def retained(self, call: Call, block: int, what: str) -> Array:
        """Rows of a layer that are read from storage."""
        buffer: Array = getattr(call.session, what)[block]
        return buffer[:, :, : call.start]

    def grouped(self, config: DecoderConfig, rows: Array) -> Array:
        """Key/value heads as the query heads read them."""
        group = config.layer.heads // config.layer.kv_heads
        return rows if group == 1 else np.repeat(rows, group, axis=1)

    def visible(self, call: Call, block: int, total: int) -> Array:
        """[T,n]: which rows a query may see."""
        return np.arange(total) <= call.start + np.arange(call.count)[:, None]

    def largest(self, scores: Array, visible: Array) -> Array:
        """The largest visible score of each query."""
        largest: Array = np.where(visible, scores, -np.inf).max(axis=-1, keepdims=True)
        return largest

    # -- writing ----------------------------------------------------------------------------------------

    def commit(self, call: Call) -> None:
        """Rows of all layers, then lengths, phase and work."""
        for layer in range(len(call.candidates)):
            self.write(call, layer)
        self.advance(call)

    def write(self, call: Call, layer: int) -> None:
        """The candidate rows of one layer into their slots."""
        at = slice(self.slot(call), self.slot(call) + call.count)
        key, value = call.candidates[layer]
        call.session.keys[layer][:, :, at], call.session.values[layer][:, :, at] = key, value

    def slot(self, call: Call) -> int:
        """Where the first new row goes."""
        return call.start

    def advance(self, call: Call) -> None:
        """What stands beside the rows."""
        session, stop = call.session, call.start + call.count
        session.lengths = [stop] * len(session.lengths)
        session.prefilled = True
        session.counter += call.count
        self.count_work(call)

    def count_work(self, call: Call) -> None:
        """Source: System 3, work."""
        config, work, stop = call.model.config, call.session.work, call.start + call.count
        tokens = call.session.lanes * call.count
        pairs = call.session.lanes * config.layers * config.layer.heads
        work["prefill_tokens" if call.is_prefill else "decode_tokens"] += tokens
        work["cache_appends"] += config.layers * call.count
        work["qkv_rows"] += 3 * config.layers * tokens
        work["cached_scores"] += pairs * sum(range(call.start + 1, stop + 1))
        work["complete_prefix_scores"] += pairs * stop * stop

    # -- everything else --------------------------------------------------------------------------------

    def observe(self, session: OpenSession, layer: int) -> Observation:
        """Views; the player copies."""
        seen = slice(0, session.lengths[layer])
        keys, values = session.keys[layer], session.values[layer]
        return Observation(
            session.lengths[layer], session.capacity, keys[:, :, seen], values[:, :, seen], (keys, values),
            {"work": dict(session.work)},
        )  # fmt: skip

    def reset(self, session: OpenSession) -> None:
        """Lengths, phase, work."""
        self.check_open(session)
        session.lengths = [0] * len(session.lengths)
        session.prefilled = False
        session.counter = 0
        session.work = dict.fromkeys(WORK, 0)

    def check_open(self, session: OpenSession) -> None:
        """Refuse a closed session."""
        PREFILL[0](session, np.zeros(0))

    def close(self, session: OpenSession) -> None:
        """Free the parameters."""
        session.closed = True
        if session in session.model.lock.sessions:
            session.model.lock.sessions.remove(session)

    def full_prefix(self, model: OpenModel, tokens: Array) -> Array:
        """The uncached pass: a session of its own that nobody sees."""
        clean = _CLEAN
        session = clean.open(model, len(tokens), tokens.shape[1])
        session.model = OpenModel(model.config, model.nodes, Lock())
        model.lock.sessions.remove(session)
        return clean.take(session, tokens, is_prefill=True)

    def locked(self, model: OpenModel) -> bool:
        """Whether the parameters may not be updated now."""
        return bool(model.lock.sessions)

    def update_parameters(self, model: OpenModel, values: Mapping[str, Array]) -> None:
        """In place; every named revision rises by one."""
        if self.locked(model):
            raise Rejected("parameters_locked", f"{len(model.lock.sessions)} sessions are open")
        for name, value in values.items():
            model.nodes[name].value[...] = value
            model.nodes[name].revision += 1

    def rewire(
        self, model: OpenModel, *, config: DecoderConfig | None = None, fresh: tuple[str, ...] = ()
    ) -> OpenModel:
        """A model that shares every node but the fresh ones."""
        nodes = {name: Node(node.value) if name in fresh else node for name, node in model.nodes.items()}
        return OpenModel(config or model.config, nodes, model.lock)

    def reopen(self, session: OpenSession, model: OpenModel) -> OpenSession:
        """The caches under a model, if it is what it was."""
        for check in self.binding_checks:
            check(session, model)
        reopened = OpenSession(**{**vars(session), "model": model, "closed": False})
        model.lock.sessions.append(reopened)
        return reopened


_CLEAN = OpenDecoderAdapter()
