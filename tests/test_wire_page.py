"""The protocol page says what the protocol is: every example is lawful, every name is there."""

import json
import re
import shutil
from pathlib import Path

import pytest

from conformance.adapter import FEATURES
from conformance.rejections import KINDS
from conformance.wire import WireAdapter, WireError
from conformance.wire.protocol import REQUESTS, request_for
from conformance.wire.schemas import definition_of
from tests.test_wire_schemas import check
from tests.zoo.exercise import live

PAGE = (Path(__file__).parents[1] / "docs" / "wire-protocol.md").read_text(encoding="utf-8")
EXAMPLES = [
    (tag, json.loads(line))
    for tag, block in re.findall(r"```json ?(\w*)\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]


def test_every_example_keeps_to_its_schema():
    asked = {}
    for tag, message in EXAMPLES:
        if tag:
            check("common", message, tag)
        elif "method" in message:
            check("request", message)
            asked[message["seq"]] = message
        else:
            check("reply", message)
    assert len(EXAMPLES) > 40


def test_every_result_of_an_example_keeps_to_its_definition():
    seen, last = 0, {}
    for _, message in EXAMPLES:
        if "method" in message:
            last = message
        elif "result" in message and message.get("seq") == last.get("seq"):
            operands = {name: value for name, value in last.items() if name not in ("seq", "method")}
            request = request_for(last["method"], operands)
            name = {"hello": "hello", "echo": "echo"}.get(last["method"])
            if request is not None:
                name = definition_of(request.answer)
            check("common", message["result"], name or "none")
            seen += 1
    assert seen > 15


@pytest.mark.parametrize(
    "name", sorted({r.method for r in REQUESTS} | {"hello", "echo", "drop", "bye"} | set(FEATURES))
)
def test_every_request_and_feature_is_described(name):
    assert f"`{name}`" in PAGE or f'"method": "{name}"' in PAGE


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rejection_is_described(kind):
    assert f"`{kind}`" in PAGE


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_the_short_driver_greets_and_echoes_and_says_what_it_lacks(tmp_path):
    driver = tmp_path / "driver.mjs"
    driver.write_text(re.search(r"```javascript\n(.*?)```", PAGE, re.DOTALL)[1])
    with WireAdapter(["node", str(driver)]) as adapter:
        assert adapter.declaration.name == "short"
        with pytest.raises(WireError, match="there is no request build_layer"):
            live(adapter)
