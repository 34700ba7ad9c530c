"""Every trace that the kit plays can be written to a file and read back as it was."""

from __future__ import annotations

import dataclasses

import pytest

from conformance.adapters.naming import resolve
from conformance.suite import traces
from conformance.trace.yaml import dump, from_trace, load
from tests.test_trace_yaml_write import same


@pytest.mark.parametrize("adapter", ["numpy", "numpy-attention", "numpy-store"])
def test_every_trace_of_the_suite_survives_a_file(adapter: str) -> None:
    played = list(traces(resolve(adapter).declaration))
    assert len(played) > 20
    for trace in played:
        (found,) = load(dump(from_trace(trace))).traces()
        assert same(dataclasses.replace(found, id=trace.id), trace), trace.id
