"""One block on new rows: its attention over a layer cache and its feed-forward part; nothing is written."""

from __future__ import annotations

import numpy as np

from reference_impl.decoder.kernels import mean_square, rms_norm, silu
from reference_impl.decoder.model import DecoderModel
from reference_impl.layer import LayerCache, Ticket
from reference_impl.layer.attend import attend
from reference_impl.layer.memory import Array
from reference_impl.layer.stages import Stages
from reference_impl.layer_errors import StepError


def prepare_block(
    stages: Stages, model: DecoderModel, block: int, cache: LayerCache, rows: Array
) -> tuple[Array, Ticket]:
    """Rows [B,T,D] after the block, and the ticket for the key and value rows that it adds.

    Raises StepError of the stage that failed.
    """
    at = f"blocks.{block}"
    normed = checked_norm(stages, rows, model, f"{at}.attention_norm")
    attended, ticket = _attention(stages, model, block, cache, normed)
    rows = _residual(stages, f"{at}.attention_residual", rows, attended)
    normed = checked_norm(stages, rows, model, f"{at}.ffn_norm")
    return _residual(stages, f"{at}.ffn_residual", rows, _feed_forward(stages, model, at, normed)), ticket


def checked_norm(stages: Stages, rows: Array, model: DecoderModel, name: str) -> Array:
    """RMSNorm; a mean square that overflows is refused, because dividing by it would hide it as zeros."""
    stages.enter(f"{name}.mean_square", rows.size)
    squares = stages.finite(mean_square(rows))
    stages.enter(name, rows.size)
    return stages.finite(rms_norm(rows, squares, model.value(f"{name}.gain"), model.config.norm_epsilon))


def project(stages: Stages, model: DecoderModel, name: str, rows: Array) -> Array:
    """`x @ W`, plus the bias where the model has biases; rows [...,in] to [...,out]."""
    weight = model.value(f"{name}.weight")
    stages.enter(name, rows.size // weight.shape[0] * weight.shape[1])
    product = rows @ weight
    return stages.finite(product + model.value(f"{name}.bias") if model.config.biases else product)


def _attention(
    stages: Stages, model: DecoderModel, block: int, cache: LayerCache, rows: Array
) -> tuple[Array, Ticket]:
    """The step of System 1 with its own kernels, on projections that may have biases and need not rotate."""
    config, rotation, at = model.config.layer, model.layers[block].rotation, f"blocks.{block}.attention"
    B, T, _ = rows.shape
    query, key, value = (
        project(stages, model, f"{at}.{name}", rows).reshape(B, T, heads, -1).swapaxes(1, 2).copy()
        for name, heads in (("query", config.heads), ("key", config.kv_heads), ("value", config.kv_heads))
    )
    if model.config.positions == "rope":
        turn = rotation.turn(cache.length, T)
        stages.enter(f"{at}.rotated_query", query.size)
        query = stages.finite(rotation.rotate(query, turn))
        stages.enter(f"{at}.rotated_key", key.size)
        key = stages.finite(rotation.rotate(key, turn))
    past = cache.key_storage[:, :, : cache.length], cache.value_storage[:, :, : cache.length]
    try:
        _, heads = attend(stages, query, past, (key, value))
    except StepError as refused:
        raise StepError(f"{at}.{refused.stage}", refused.cause) from refused
    merged = heads.swapaxes(1, 2).reshape(B, T, config.heads * config.head_width)
    attended = project(stages, model, f"{at}.output", merged)
    return attended, cache._ticket(key, value)


def _feed_forward(stages: Stages, model: DecoderModel, at: str, rows: Array) -> Array:
    """SwiGLU: `down(silu(x @ gate) * (x @ up))`."""
    gate, up = (project(stages, model, f"{at}.ffn.{name}", rows) for name in ("gate", "up"))
    stages.enter(f"{at}.ffn.hidden", gate.size)
    return project(stages, model, f"{at}.ffn.down", stages.finite(silu(gate) * up))


def _residual(stages: Stages, name: str, rows: Array, more: Array) -> Array:
    stages.enter(name, rows.size)
    return stages.finite(np.add(rows, more))
