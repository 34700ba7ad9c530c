"""The published schemas say what the protocol says, and all real traffic keeps to them."""

import io
import json

import jsonschema
import numpy as np
import pytest
import referencing

from conformance.adapter import FEATURES, LEVELS
from conformance.rejections import KINDS
from conformance.values import AttentionConfig, DecoderConfig, LayerConfig, RopeConfig, StoreConfig
from conformance.wire import serve
from conformance.wire.echo import echo_values
from conformance.wire.lines import read_line, write_line
from conformance.wire.messages import config_out
from conformance.wire.numbers import Numbers
from conformance.wire.operands import CONFIGS
from conformance.wire.protocol import REQUESTS
from conformance.wire.schemas import NAMES, definition_of, schema
from tests.zoo.adapters import Behaving
from tests.zoo.levels import Everything

REGISTRY = referencing.Registry().with_resources(
    (schema(name)["$id"], referencing.Resource.from_contents(schema(name))) for name in NAMES
)
RECORDED = {
    "layer_config": LayerConfig(4, 2, 2, 2, RopeConfig(1e-5, "half", 8)),
    "attention_config": AttentionConfig(2, 2, 2, 2),
    "store_config": StoreConfig(2, 2, 2, 2),
    "decoder_config": DecoderConfig(5, 2, LayerConfig(4, 2, 2, 2, RopeConfig(100.0, "adjacent", 8)), 6, 1e-5),
}


def check(name, message, definition=None):
    wanted = {"$ref": schema(name)["$id"] + (f"#/$defs/{definition}" if definition else "")}
    jsonschema.Draft202012Validator(wanted, registry=REGISTRY).validate(message)


def operand(kind, numbers):
    array = numbers.array_out(np.array([[[-0.0, np.nan, 5e-324, 1.0]]]))
    config = RECORDED.get(kind)
    if config is not None:
        return config_out(config, numbers)
    weights = dict.fromkeys(("query", "key", "value", "output"), array)
    number = numbers.number_out(-np.inf)
    plain = {"handle": 1, "cache_handle": 2, "int": 2, "ints": [1, 0], "names": ["key"]}
    arrays = {"array": array, "number": number, "layer_parameters": weights, "arrays": {"a": array}}
    return {**plain, **arrays}[kind]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_a_schema(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))


def test_the_schemas_name_what_the_contract_names():
    definitions = schema("common")["$defs"]
    assert definitions["rejected"]["properties"]["kind"]["enum"] == list(KINDS)
    assert definitions["declaration"]["properties"]["features"]["items"]["enum"] == list(FEATURES)
    assert definitions["declaration"]["properties"]["levels"]["items"]["enum"] == list(LEVELS)
    assert set(CONFIGS) == set(RECORDED) <= set(definitions)


@pytest.mark.parametrize("mode", ["decimal", "bits"])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: f"{r.method}-{'-'.join(r.operands)}")
def test_every_request_keeps_to_its_schema_and_no_other_shape_does(request_, mode):
    numbers = Numbers(mode)
    operands = {name: operand(kind.rstrip("?"), numbers) for name, kind in request_.operands.items()}
    message = read_line(write_line({"seq": 7, "method": request_.method, **operands})[:-1])
    check("request", message)
    for name, kind in request_.operands.items():
        if not kind.endswith("?"):
            with pytest.raises(jsonschema.ValidationError):
                check("request", {key: value for key, value in message.items() if key != name})
    for broken in ({"seq": 0}, {"seq": "7"}, {"method": "nonsense"}, {"more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            check("request", {**message, **broken})


def talk(adapter, *requests, mode="decimal"):
    """Serve `adapter` for these requests; every line is checked against the schemas."""
    hello = {"method": "hello", "protocol": 1, "contract": "1", "numbers": mode}
    lines = [{"seq": n + 1, **request} for n, request in enumerate([hello, *requests])]
    for line in lines:
        check("request", json.loads(json.dumps(line)))
    out = io.BytesIO()
    serve(adapter, io.BytesIO(b"".join(write_line(line) for line in lines)), out)
    replies = [read_line(line) for line in out.getvalue().splitlines()]
    for line, reply in zip(lines, replies, strict=True):
        check("reply", reply)
        assert reply["seq"] == line["seq"]
    check("common", replies[0]["result"], "hello")
    return replies[1:]


@pytest.mark.parametrize("mode", ["decimal", "bits"])
def test_every_answer_of_a_served_adapter_keeps_to_its_schema(mode):
    numbers = Numbers(mode)
    for request in REQUESTS:
        builders = [r for r in REQUESTS if r.method.startswith(("build", "open"))]
        needed = [name for name, kind in request.operands.items() if kind == "handle"]
        asked, numbered = [], {}
        for name in ("layer", "model", *needed):
            builder = next(
                r for r in builders if r.answer == name and ("config" in r.operands or name == "session")
            )
            if name not in numbered:
                asked.append(filled(builder, numbers, numbered))
                numbered[name] = len(asked)
        *_, reply = talk(Everything(), *asked, filled(request, numbers, numbered), mode=mode)
        assert "result" in reply, reply
        check("common", reply["result"], definition_of(request.answer))


def filled(request, numbers, numbered):
    operands = {name: operand(kind.rstrip("?"), numbers) for name, kind in request.operands.items()}
    handles = {name: numbered[name] for name, kind in request.operands.items() if kind == "handle"}
    operands.pop("shared_with", None)
    return {"method": request.method, **operands, **handles}


def test_the_conversation_itself_keeps_to_its_schema():
    echo, drop, bye = talk(
        Behaving(),
        {"method": "echo", "values": Numbers().array_out(echo_values())},
        {"method": "drop", "handles": [1, 2, 99]},
        {"method": "bye"},
    )
    check("common", echo["result"], "echo")
    check("common", drop["result"], "none")
    assert bye["result"] is None


def test_storage_and_refusals_keep_to_their_schemas():
    array = Numbers().array_out(np.ones((1, 1, 4)))
    weights = dict.fromkeys(("query", "key", "value", "output"), array)
    layer = {
        "method": "build_layer",
        "config": config_out(RECORDED["layer_config"], Numbers()),
        "parameters": weights,
    }
    append = {"method": "append", "layer": 1, "cache": 2, "rows": array}
    observe = {"method": "observe", "cache": 2}
    _, _, step, seen, refused = talk(
        Behaving(),
        layer,
        {"method": "build_cache", "layer": 1, "batch_size": 1, "capacity": 1},
        append,
        observe,
        append,
    )
    check("common", step["result"], "step")
    check("common", seen["result"], "observation")
    assert len(seen["result"]["storage"]) == 2
    assert refused["rejected"]["kind"] == "full"


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"method": "nonsense"}, "there is no such method"),
        (
            {"method": "append", "cache": 1},
            r"it takes \(layer, cache, rows\) or \(cache, query, key, value\)",
        ),
        ({"method": "observe", "cache": 5}, "5 is not the handle of a standing cache"),
        ({"method": "build_store", "config": {}, "batch_size": 1}, "the field 'layers' is missing"),
        ({"method": 7}, "is not the name of a request"),
        ({"method": "poison", "cache": 1, "value": 1e400}, "not the handle|too large"),
    ],
)
def test_a_wrong_request_is_answered_with_an_error(request_, problem):
    line = json.dumps({"seq": 2, **request_}).replace("Infinity", "1e400").encode() + b"\n"
    hello = write_line({"seq": 1, "method": "hello", "protocol": 1, "contract": "1"})
    out = io.BytesIO()
    serve(Behaving, io.BytesIO(hello + line), out)
    reply = read_line(out.getvalue().splitlines()[1])
    check("reply", reply)
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(reply["error"]["message"])


def test_requests_before_hello_and_lines_of_garbage_are_answered_with_errors():
    out = io.BytesIO()
    serve(Behaving, io.BytesIO(b'garbage\n{"seq": 1, "method": "reset", "cache": 1}\n'), out)
    first, second = (read_line(line) for line in out.getvalue().splitlines())
    assert "not JSON" in first["error"]["message"]
    assert first["seq"] is None
    assert second["error"]["type"] == "MessageError"
