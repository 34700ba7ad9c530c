"""The ONNX `Attention` operator, run by the `onnx` package's own reference evaluator.

The operator keeps no cache: it takes `past_key` and `past_value` and hands `present_key` and
`present_value` back, which become the next past. The adapter keeps that pair between calls and nothing
else: it neither checks nor repairs what the operator does. Extra: `onnx`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.errors import AdapterError
from conformance.values import AttentionConfig, Observation

OPSET = 24
INPUTS = ("Q", "K", "V", "past_key", "past_value")
OUTPUTS = ("Y", "present_key", "present_value")

Array = NDArray[Any]


@dataclass(eq=False)
class Past:
    """The pair that goes in as past and comes out as present: keys [B,G,n,dk], values [B,G,n,dv]."""

    empty_keys: Array
    empty_values: Array
    keys: Array
    values: Array


class OnnxAttentionAdapter:
    """Level attention over one graph of one `Attention` node with `is_causal = 1`."""

    def __init__(self, opset: int = OPSET) -> None:
        """Build the graph. Raises AdapterError where the `onnx` package is missing or too old."""
        try:
            import onnx  # noqa: PLC0415 - an extra
            from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise AdapterError(
                f"the adapter 'onnx' needs the onnx package ({error}); install it with "
                f"pip install 'kv-conformance[onnx]'"
            ) from error
        self.evaluator: Any = ReferenceEvaluator(_graph(onnx, opset))
        self.declaration = Declaration(
            name="onnx reference evaluator, Attention",
            version=f"{onnx.__version__}, opset {opset}",
            levels=("attention",),
            features=frozenset({"chunks", "gqa"}),
            rows_per_append="any",
            capacity="growing",
        )

    def build_cache(self, config: AttentionConfig, batch_size: int, capacity: int) -> Past:  # noqa: ARG002
        """An empty past; the operator knows no capacity."""
        keys = np.zeros((batch_size, config.kv_heads, 0, config.key_width))
        values = np.zeros((batch_size, config.kv_heads, 0, config.value_width))
        return Past(keys, values, keys, values)

    def append(self, cache: Past, query: Array, key: Array, value: Array) -> Array:
        """One run of the node; its present becomes the past."""
        feeds = dict(zip(INPUTS, (query, key, value, cache.keys, cache.values), strict=True))
        output, keys, values = self.evaluator.run(None, feeds)
        cache.keys, cache.values = keys, values
        return output  # type: ignore[no-any-return]

    def observe(self, cache: Past) -> Observation:
        """The past as it stands."""
        return Observation(length=cache.keys.shape[2], keys=cache.keys, values=cache.values)

    def reset(self, cache: Past) -> None:
        """Back to the empty past."""
        cache.keys, cache.values = cache.empty_keys, cache.empty_values


def _graph(onnx: Any, opset: int) -> Any:
    """A model of one node over float64 tensors of any shape."""
    helper = onnx.helper
    double = onnx.TensorProto.DOUBLE
    node = helper.make_node(
        "Attention", ["Q", "K", "V", "", "past_key", "past_value"], list(OUTPUTS), is_causal=1
    )
    graph = helper.make_graph(
        [node],
        "attention_with_past",
        [helper.make_tensor_value_info(name, double, None) for name in INPUTS],
        [helper.make_tensor_value_info(name, double, None) for name in OUTPUTS],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def onnx_attention() -> OnnxAttentionAdapter:
    """The built-in adapter `onnx`."""
    return OnnxAttentionAdapter()
