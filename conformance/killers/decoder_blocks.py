"""Decoders that compute something else: masks, norms, residuals, head, options."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_decoder import OpenDecoderAdapter
from conformance.killers.open_decoder_state import Array, Call, OpenModel, OpenSession
from conformance.values import DecoderConfig


@killer("decoder_prefill_mask_missing", fault="MASK-OFF-WITH-CACHE", violates="DECODE-CAUSAL",
        level="decoder", says="there is no causal mask in a prefill")
class _MaskMissing(OpenDecoderAdapter):
    def visible(self, call: Call, block: int, total: int) -> Array:
        seen = super().visible(call, block, total)
        return np.ones_like(seen) if call.is_prefill else seen


@killer("decoder_prefill_mask_in_first_layer", fault="MASK-OFF-WITH-CACHE", violates="DECODE-CAUSAL",
        level="decoder", says="only the first layer masks a prefill")
class _MaskInFirstLayer(OpenDecoderAdapter):
    def visible(self, call: Call, block: int, total: int) -> Array:
        seen = super().visible(call, block, total)
        return seen if block == 0 else np.ones_like(seen)


@killer("decoder_mask_right_in_last_row", fault="MASK-SQUARE-SHAPE", violates="DECODE-LOGITS",
        level="decoder", says="every row of a prompt but the last sees one row too many in the last block")
class _MaskRightInLastRow(OpenDecoderAdapter):
    def visible(self, call: Call, block: int, total: int) -> Array:
        one_more = np.arange(total) <= call.start + np.arange(call.count)[:, None] + 1
        last = block == call.model.config.layers - 1
        return one_more if last else super().visible(call, block, total)


@killer("decoder_decode_without_newest", fault="MASK-TOPLEFT-CHUNK", violates="DECODE-LOGITS",
        level="decoder", says="a decoded token does not see itself")
class _WithoutNewest(OpenDecoderAdapter):
    def visible(self, call: Call, block: int, total: int) -> Array:
        seen = super().visible(call, block, total)
        return seen if call.is_prefill else np.arange(total)[None] < total - 1


@killer("decoder_wrong_epsilon", fault="PATH-MATH-MISMATCH", violates="DECODE-LOGITS", level="decoder",
        says="the norm adds 1e-6 whatever epsilon is configured")
class _WrongEpsilon(OpenDecoderAdapter):
    def epsilon(self, config: DecoderConfig) -> float:
        return 1e-6


@killer("decoder_no_epsilon_outside_root", fault="PATH-MATH-MISMATCH", violates="DECODE-LOGITS",
        level="decoder", says="epsilon is added to the root and not under it")
class _EpsilonOutside(OpenDecoderAdapter):
    def norm(self, model: OpenModel, name: str, rows: Array) -> Array:
        root = np.sqrt(np.mean(rows * rows, axis=-1, keepdims=True))
        normed: Array = rows / (root + model.config.norm_epsilon) * model.value(f"{name}.gain")
        return normed


@killer("decoder_missing_residual", fault="PATH-MATH-MISMATCH", violates="DECODE-LOGITS", level="decoder",
        says="decodes leave out the residual around the feed-forward part")
class _MissingResidual(OpenDecoderAdapter):
    def block(self, call: Call, block: int, rows: Array) -> Array:
        if call.is_prefill:
            return super().block(call, block, rows)
        at = f"blocks.{block}"
        rows = rows + self.attention(call, block, self.norm(call.model, f"{at}.attention_norm", rows))
        return self.feed_forward(call, at, self.norm(call.model, f"{at}.ffn_norm", rows))


@killer("decoder_residual_of_normed_rows", fault="PATH-MATH-MISMATCH", violates="DECODE-LOGITS",
        level="decoder", says="the residual around attention starts from the normed rows")
class _ResidualOfNormed(OpenDecoderAdapter):
    def block(self, call: Call, block: int, rows: Array) -> Array:
        at = f"blocks.{block}"
        normed = self.norm(call.model, f"{at}.attention_norm", rows)
        rows = normed + self.attention(call, block, normed)
        return rows + self.feed_forward(call, at, self.norm(call.model, f"{at}.ffn_norm", rows))


@killer("decoder_no_final_norm", fault="PATH-MATH-MISMATCH", violates="DECODE-LOGITS", level="decoder",
        says="the head reads rows that have not been normed")
class _NoFinalNorm(OpenDecoderAdapter):
    def norm(self, model: OpenModel, name: str, rows: Array) -> Array:
        return rows if name == "final_norm" else super().norm(model, name, rows)


@killer("decoder_no_gain", fault="PATH-MATH-MISMATCH", violates="DECODE-LOGITS", level="decoder",
        says="norms of the feed-forward part leave out their gain")
class _NoGain(OpenDecoderAdapter):
    def norm(self, model: OpenModel, name: str, rows: Array) -> Array:
        normed = super().norm(model, name, rows)
        return normed / model.value(f"{name}.gain") if name.endswith("ffn_norm") else normed


@killer("decoder_gelu", fault="PATH-MATH-MISMATCH", violates="DECODE-LOGITS", level="decoder",
        says="the gate goes through x * sigmoid(1.702 x), a form of GELU")
class _Gelu(OpenDecoderAdapter):
    def activation(self, gate: Array) -> Array:
        activated: Array = gate / (1.0 + np.exp(-1.702 * gate))
        return activated


@killer("decoder_gate_and_up_exchanged", fault="PATH-MATH-MISMATCH", violates="DECODE-LOGITS",
        level="decoder", says="gate and up weights are exchanged")
class _GateAndUp(OpenDecoderAdapter):
    def project(self, model: OpenModel, name: str, rows: Array) -> Array:
        exchanged = {"gate": "up", "up": "gate"}
        stem, _, last = name.rpartition(".")
        return super().project(model, f"{stem}.{exchanged.get(last, last)}", rows)


@killer("decoder_always_tied", fault="PATH-MATH-MISMATCH", violates="DECODE-UNTIED", level="decoder",
        says="the transposed embedding is the head whatever is configured")
class _AlwaysTied(OpenDecoderAdapter):
    def head(self, model: OpenModel) -> Array:
        return model.value("token_embedding.weight").T


@killer("decoder_key_bias_missing", fault="PATH-MATH-MISMATCH", violates="DECODE-BIASES", level="decoder",
        says="the bias of the key projection is left out, which without rotation softmax would hide")
class _KeyBiasMissing(OpenDecoderAdapter):
    def project(self, model: OpenModel, name: str, rows: Array) -> Array:
        made = super().project(model, name, rows)
        drop = model.config.biases and name.endswith("attention.key")
        return made - model.value(f"{name}.bias") if drop else made


@killer("decoder_down_bias_missing", fault="PATH-MATH-MISMATCH", violates="DECODE-BIASES", level="decoder",
        says="the bias of the last feed-forward projection is left out")
class _DownBiasMissing(OpenDecoderAdapter):
    def project(self, model: OpenModel, name: str, rows: Array) -> Array:
        made = super().project(model, name, rows)
        drop = model.config.biases and name.endswith("ffn.down")
        return made - model.value(f"{name}.bias") if drop else made


@killer("decoder_always_adjacent", fault="ROPE-PATH-MISMATCH", violates="DECODE-HALF-PAIRS", level="decoder",
        says="adjacent features are rotated together whatever is configured")
class _AlwaysAdjacent(OpenDecoderAdapter):
    def pairing(self, config: DecoderConfig) -> str:
        return "adjacent"


@killer("decoder_heads_tiled", fault="GQA-REPEAT-ORDER", violates="DECODE-GROUPED", level="decoder",
        says="query head h reads key/value head h mod G")
class _HeadsTiled(OpenDecoderAdapter):
    def grouped(self, config: DecoderConfig, rows: Array) -> Array:
        return np.tile(rows, (1, config.layer.heads // config.layer.kv_heads, 1, 1))


@killer("decoder_last_row_repeated", fault="UPDATE-NOT-VISIBLE", violates="DECODE-LOGITS", level="decoder",
        says="a prefill hands out the last row of logits for every position")
class _LastRowRepeated(OpenDecoderAdapter):
    def logits(self, call: Call, normed: Array) -> Array:
        made = super().logits(call, normed)
        return np.repeat(made[:, -1:], made.shape[1], axis=1)


@killer("decoder_decode_without_axis", fault="PATH-MATH-MISMATCH", violates="DECODE-SHAPE", level="decoder",
        says="a decode hands out logits [B,V]")
class _WithoutAxis(OpenDecoderAdapter):
    def logits(self, call: Call, normed: Array) -> Array:
        made = super().logits(call, normed)
        return made if call.is_prefill else made[:, 0]


@killer("decoder_repeated_token_skipped", fault="WRITE-SKIPPED", violates="DECODE-GREEDY", level="decoder",
        says="a token equal to the one before it is taken for the same call and not taken in again")
class _RepeatedSkipped(OpenDecoderAdapter):
    def take(self, session: OpenSession, tokens: Array, *, is_prefill: bool) -> Array:
        last = session.notes.get("last")
        if last is not None and not is_prefill and last[0] == tokens.tobytes():
            repeated: Array = last[1].copy()
            return repeated
        made = super().take(session, tokens, is_prefill=is_prefill)
        session.notes["last"] = None if is_prefill else (tokens.tobytes(), made)
        return made


@killer("decoder_own_pass_other_epsilon", fault="PATH-MATH-MISMATCH", violates="DECODE-SELF-AGREEMENT",
        level="decoder", says="the pass without the cache uses another epsilon than the cached calls")
class _OwnPassOtherEpsilon(OpenDecoderAdapter):
    def full_prefix(self, model: OpenModel, tokens: Array) -> Array:
        other = OpenModel(
            DecoderConfig(**{**vars(model.config), "norm_epsilon": 1e-3}), model.nodes, model.lock
        )
        return super().full_prefix(other, tokens)


@killer("decoder_prompt_of_one_not_kept", fault="WRITE-SKIPPED", violates="DECODE-PARTITIONS",
        level="decoder", says="a prompt of a single token is computed and its rows are not kept")
class _PromptOfOne(OpenDecoderAdapter):
    def write(self, call: Call, layer: int) -> None:
        if call.count > 1 or not call.is_prefill:
            super().write(call, layer)
