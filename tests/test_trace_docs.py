"""The page on the format says what is true."""

from __future__ import annotations

import re
from pathlib import Path

from conformance.trace.expect import Close
from conformance.trace.model import OPERATIONS
from conformance.trace.yaml import load
from conformance.trace.yaml_expect import TYPES
from conformance.trace.yaml_plain import _READ as PLAIN_TYPES
from conformance.trace.yaml_read import OPTIONAL, REQUIRED
from conformance.trace.yaml_short import EXPECTED
from conformance.trace.yaml_steps import COMMON, OPERANDS

PAGE = Path(__file__).parent.parent / "docs" / "trace-format.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_example_is_a_trace_file() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
    single, chunked = load(example, file="tiny.yaml").traces()
    assert [len(single.steps), len(chunked.steps)] == [5, 1]
    # With equal weights every output is the mean of the values so far.
    outputs = [e.value for e in chunked.steps[0].expect if isinstance(e, Close) and e.field == "output"]
    rows = chunked.steps[0].inputs["rows"][0]
    assert outputs[0][0].tolist() == [rows[0].tolist(), rows.mean(axis=0).tolist()]


def test_every_word_of_the_format_is_explained() -> None:
    words = set(re.findall(r"[a-z_0-9]+", TEXT))
    operands = {name for own in OPERANDS.values() for name in own}
    for known in (OPERATIONS, REQUIRED, OPTIONAL, COMMON, operands, TYPES, PLAIN_TYPES):
        assert set(known) <= words
    assert {"length", "capacity", "storage", "work"} <= set(EXPECTED) & words
