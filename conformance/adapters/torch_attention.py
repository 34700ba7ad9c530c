"""`torch.nn.functional.scaled_dot_product_attention` over a cache written by hand, as user code has it.

PyTorch gives the operator and no cache: fixed buffers, a length and a mask stand around it here, the usual
way. The mask is spelt out, because the operator's own `is_causal` aligns it at the first row and not at the
last, which is wrong for every chunk behind a past. Extra: `torch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.adapter import Declaration
from conformance.errors import AdapterError
from conformance.rejections import Rejected
from conformance.values import AttentionConfig, Observation

FEATURES = ("chunks", "gqa", "storage", "poison", "truncate", "fork", "reorder")


class CacheFullError(Exception):
    """More rows than the buffers have room for."""


class NoRowsError(Exception):
    """A call without a row."""


@dataclass(eq=False)
class Buffers:
    """keys [B,G,C,dk] and values [B,G,C,dv], torch tensors, of which the first `length` rows are used."""

    keys: Any
    values: Any
    length: int = 0

    def update(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Write T new rows behind the old ones; the logical prefix, as views."""
        old, new = self.length, self.length + key.shape[2]
        if new == old:
            raise NoRowsError("there is no row in this call")
        if new > self.keys.shape[2]:
            raise CacheFullError(f"{new} rows do not fit into {self.keys.shape[2]}")
        self.keys[:, :, old:new], self.values[:, :, old:new] = key, value
        self.length = new
        return self.keys[:, :, :new], self.values[:, :, :new]


class TorchAttentionAdapter:
    """Level attention; `dtype` is float64, float32 or float16."""

    def __init__(self, dtype: str = "float64") -> None:
        """Raises AdapterError where torch is missing."""
        try:
            import torch  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise AdapterError(
                f"the adapter 'torch-attention' needs torch ({error}); install it with "
                f"pip install 'kv-conformance[torch]'"
            ) from error
        self.torch: Any = torch
        self.dtype = getattr(torch, dtype)
        self.declaration = Declaration(
            name="torch scaled_dot_product_attention over buffers of one's own",
            version=str(torch.__version__),
            levels=("attention",),
            dtypes=(dtype,),
            features=frozenset(FEATURES),
            rows_per_append="any",
            rejections={CacheFullError: "full", NoRowsError: "empty_chunk"},
        )

    def build_cache(self, config: AttentionConfig, batch_size: int, capacity: int) -> Buffers:
        """Buffers full of zeros."""
        shape = (batch_size, config.kv_heads, capacity)
        widths = (config.key_width, config.value_width)
        return Buffers(*(self.torch.zeros(*shape, width, dtype=self.dtype) for width in widths))

    def append(self, cache: Buffers, query: Any, key: Any, value: Any) -> Any:
        """Row t of the call sees the past and the rows 0 to t of the call."""
        query, key, value = (self.torch.from_numpy(part) for part in (query, key, value))
        old, count = cache.length, query.shape[2]
        keys, values = cache.update(key, value)
        mask = self.torch.ones(count, old + count, dtype=self.torch.bool).tril(diagonal=old)
        attend = self.torch.nn.functional.scaled_dot_product_attention
        return attend(query, keys, values, attn_mask=mask, enable_gqa=True)

    def observe(self, cache: Buffers) -> Observation:
        """The prefix as views, and both buffers."""
        n, capacity = cache.length, cache.keys.shape[2]
        storage = (cache.keys, cache.values)
        return Observation(n, capacity, cache.keys[:, :, :n], cache.values[:, :, :n], storage)

    def reset(self, cache: Buffers) -> None:
        """Back to the first slot; nothing is written."""
        cache.length = 0

    def poison(self, cache: Buffers, value: float) -> None:
        """Fill every slot at or after the length."""
        for part in (cache.keys, cache.values):
            part[:, :, cache.length :] = value

    def truncate(self, cache: Buffers, length: int) -> None:
        """Keep the first `length` rows."""
        if not 0 <= length <= cache.length:
            raise Rejected("invalid_length", f"{length} of {cache.length} rows cannot be kept")
        cache.length = length

    def fork(self, cache: Buffers) -> Buffers:
        """Buffers of its own with the same rows."""
        return Buffers(cache.keys.clone(), cache.values.clone(), cache.length)

    def reorder(self, cache: Buffers, lanes: list[int]) -> None:
        """Lane i takes what lane lanes[i] held."""
        if not all(0 <= lane < len(cache.keys) for lane in lanes):
            raise Rejected("lane_out_of_range", f"{lanes} of {len(cache.keys)} lanes")
        for part in (cache.keys, cache.values):
            part.copy_(part[lanes])


def torch_attention() -> TorchAttentionAdapter:
    """The built-in adapter `torch-attention`: float64."""
    return TorchAttentionAdapter()


def torch_attention_float32() -> TorchAttentionAdapter:
    """The built-in adapter `torch-attention-float32`."""
    return TorchAttentionAdapter("float32")
