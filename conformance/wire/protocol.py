"""The requests of the protocol, as one table that client, server and schemas share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PROTOCOL_VERSION = 1
OPTIONAL = ("overwrite_row",)
"""Requests that no feature promises; a driver that answers them says so in its hello, under `offers`."""


@dataclass(frozen=True)
class Request:
    """One request: its operands in the order of the adapter's method, and what it answers with.

    operands: kind by name; a kind that ends in `?` may be left out. A `handle` is one of what its operand is
    called, a `cache_handle` one of a cache. answer: `none`, `step`, `observation`,
    `prefix`, `pair`, `logits`, `output`, `written`, or what a handle stands for (`layer`, `cache`, `store`,
    `model`, `session`, `same` for a handle of the target's own sort).
    """

    method: str
    operands: Mapping[str, str]
    answer: str


HANDLES = ("layer", "cache", "store", "model", "session")
"""What a handle can stand for; also the name of the operand that carries it."""

_CACHE = {"cache": "handle"}
_STORE = {"store": "handle", "layer": "int"}
_SESSION = {"session": "handle", "layer": "int"}
_LAYER = {"layer": "handle"}
_MODEL = {"model": "handle"}
_SIZES = {"batch_size": "int", "capacity": "int"}


def _each(
    method: str, targets: tuple[Mapping[str, str], ...], more: Mapping[str, str], answer: str
) -> tuple[Request, ...]:
    return tuple(Request(method, {**target, **more}, answer) for target in targets)


_HOLDERS = (_CACHE, {"store": "handle"}, {"session": "handle"})

REQUESTS: tuple[Request, ...] = (
    Request("build_layer", {"config": "layer_config", "parameters": "layer_parameters"}, "layer"),
    Request("build_cache", {**_LAYER, **_SIZES}, "cache"),
    Request("append", {**_LAYER, **_CACHE, "rows": "array"}, "step"),
    Request(
        "build_paged",
        {**_LAYER, **_SIZES, "block_size": "int", "blocks": "int", "shared_with": "cache_handle?"},
        "cache",
    ),
    Request("build_cache", {"config": "attention_config", **_SIZES}, "cache"),
    Request("append", {**_CACHE, "query": "array", "key": "array", "value": "array"}, "step"),
    Request("build_store", {"config": "store_config", "batch_size": "int", "capacity": "int?"}, "store"),
    Request("append", {**_STORE, "keys": "array", "values": "array"}, "prefix"),
    Request("build_model", {"config": "decoder_config", "parameters": "arrays"}, "model"),
    Request("open", {**_MODEL, **_SIZES}, "session"),
    Request("prefill", {"session": "handle", "tokens": "array"}, "logits"),
    Request("decode", {"session": "handle", "tokens": "array"}, "logits"),
    *_each("observe", (_CACHE, _STORE, _SESSION), {}, "observation"),
    *_each("reset", _HOLDERS, {}, "none"),
    Request("close", {"session": "handle"}, "none"),
    Request("reopen", {"session": "handle", **_MODEL}, "session"),
    *_each("truncate", _HOLDERS, {"length": "int"}, "none"),
    *_each("fork", _HOLDERS, {}, "same"),
    *_each("reorder", _HOLDERS, {"lanes": "ints"}, "none"),
    Request("full_prefix", {**_LAYER, "rows": "array"}, "output"),
    Request("full_prefix", {**_MODEL, "tokens": "array"}, "logits"),
    *_each("update_parameters", (_LAYER, _MODEL), {"parameters": "arrays"}, "none"),
    Request("rewire", {**_LAYER, "config": "layer_config?", "fresh": "names"}, "layer"),
    Request("rewire", {**_MODEL, "config": "decoder_config?", "fresh": "names"}, "model"),
    *_each("poison", _HOLDERS, {"value": "number"}, "none"),
    Request("snapshot", _CACHE, "pair"),
    *_each("snapshot", ({"store": "handle"}, {"session": "handle"}), {"layer": "int?"}, "pair"),
    *_each("overwrite_row", _HOLDERS, {"buffer": "int", "index": "int", "data": "array"}, "written"),
)
"""Every request but `hello`, `echo`, `drop` and `bye`, which belong to the conversation itself."""

OMITTED = {("snapshot", "layer")}
"""Operands that the adapter's method is not given at all where the request leaves them out."""

BY_KEYWORD = {"rewire": ("config", "fresh"), "build_paged": ("block_size", "blocks", "shared_with")}
"""Operands that the adapter's method takes by keyword."""


_FORMS: dict[str, list[tuple[frozenset[str], Request]]] = {}
for _request in REQUESTS:
    _needed = frozenset(name for name, kind in _request.operands.items() if not kind.endswith("?"))
    _FORMS.setdefault(_request.method, []).append((_needed, _request))


def request_for(method: str, given: Mapping[str, object]) -> Request | None:
    """The request that a method and the names of its operands select, None where there is none."""
    for needed, request in _FORMS.get(method, ()):
        if needed <= given.keys() <= request.operands.keys():
            return request
    return None


def forms_of(method: str) -> tuple[str, ...]:
    """The operands of each form of a request, in words; empty for a request that does not exist."""
    return tuple(", ".join(r.operands) for r in REQUESTS if r.method == method)
