"""The built-in adapters over PyTorch and transformers; each test is skipped where its library is missing."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest

from conformance import check
from conformance.adapters.naming import resolve
from conformance.errors import AdapterError


def library(name):
    """The library, or a skip with its reason; importing it may warn of things that are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            return pytest.skip(f"{name} is not installed: pip install 'kv-conformance[{name}]'")


def standings(report):
    return {r.requirement.id: r.standing for p in report.verdict.profiles for r in p.results}


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("torch-attention", "torch", "torch"),
        ("torch-attention-float32", "torch", "torch"),
        ("transformers-dynamic", "transformers", "transformers"),
        ("transformers-static", "torch", "transformers"),
    ],
)
def test_without_its_library_an_adapter_says_what_to_install(monkeypatch, name, missing, extra) -> None:
    if missing == "transformers":
        monkeypatch.setitem(sys.modules, "torch", sys)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(AdapterError, match=rf"pip install 'kv-conformance\[{extra}\]'"):
        resolve(name)


@pytest.mark.parametrize("name", ["torch-attention", "torch-attention-float32"])
def test_the_attention_of_torch_is_conformant(name) -> None:
    library("torch").set_num_threads(1)
    report = check(name)
    assert report.verdict.text == "conformant"
    assert {"core", "chunks", "gqa", "rollback", "fork", "reorder"} == {
        p.profile for p in report.verdict.profiles
    }


def test_a_mask_aligned_at_the_first_row_is_seen() -> None:
    torch = library("torch")
    adapter = resolve("torch-attention")

    def append(cache, query, key, value):
        parts = [torch.from_numpy(part) for part in (query, key, value)]
        keys, values = cache.update(*parts[1:])
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(parts[0], keys, values, is_causal=query.shape[2] > 1, enable_gqa=True)

    adapter.append = append
    found = standings(check(adapter, ["core", "chunks"], diagnose=False))
    assert found["CHUNK-AGREE"] == "fail"


def test_the_growing_cache_of_transformers_keeps_what_it_is_given() -> None:
    library("transformers")
    report = check("transformers-dynamic", ["store", "fork", "reorder"])
    assert report.verdict.text == "conformant"


def test_the_static_cache_of_transformers_is_left_damaged_by_an_overflow() -> None:
    library("transformers")
    found = standings(check("transformers-static", ["store", "fork", "reorder"], diagnose=False))
    assert {"CAPACITY-FULL", "RESET-INFLUENCE", "KEEP-PREFIX", "FORK-APART"} <= {
        name for name, standing in found.items() if standing == "pass"
    }
    # The length is raised before the write that fails. Where a later version checks first, this changes.
    assert found["ATOMIC-LENGTH"] == "fail"


@pytest.mark.parametrize("name", ["transformers-dynamic", "transformers-static"])
def test_a_crop_that_is_ignored_is_seen(name) -> None:
    library("transformers")
    adapter = resolve(name)
    adapter.truncate = lambda store, length: None
    assert standings(check(adapter, "rollback", diagnose=False))["TRUNCATE-LENGTH"] == "fail"
