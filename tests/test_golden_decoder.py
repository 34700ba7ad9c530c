"""Every published figure of chapter 38, computed anew by the decoder session and found in what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.adapter import Declaration, Precision
from conformance.adapters.numpy_decoder import numpy_decoder
from conformance.dtypes import rounded
from conformance.golden_bounds import bounded
from conformance.golden_files import load, show
from conformance.rejections import Rejected
from conformance.trace.expect import Close
from conformance.trace.model import Source

DOCUMENT = load("ch38")
PUBLISHED = DOCUMENT.tree["published"]
PROSE = {"family", "rmsnorm", "swiglu", "row_convention"}
"""Entries of the published model that are formulas in words."""


def source() -> Source:
    (found,) = {id(t.layers["main"]): t.layers["main"] for t in DOCUMENT.traces()[:1]}.values()
    assert isinstance(found, Source)
    return found


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(value, str):
            yield (*path, key), value
        else:
            yield from leaves(value, (*path, key))


class Chapter:
    """The chapter's report, made with the embedded session."""

    def __init__(self) -> None:
        self.adapter, self.source = numpy_decoder(), source()
        self.model = self.adapter.build_model(self.source.config, self.source.parameters)  # type: ignore[arg-type]
        self.session = self.adapter.open(self.model, 1, 4)

    def views(self) -> list[Any]:
        return [self.adapter.observe(self.session, layer) for layer in (0, 1)]

    def work(self) -> dict[str, int]:
        return dict(self.views()[0].extra["work"])

    def call(self, tokens: list[int]) -> dict[str, Any]:
        before, counted = self.views()[0].length, self.work()
        given = np.array([tokens]) if not before else np.array(tokens)
        logits = (self.adapter.decode if before else self.adapter.prefill)(self.session, given)
        seen = self.views()
        held = [*range(3)][: seen[0].length]
        own = self.adapter.full_prefix(self.model, np.array([held]))
        scores = {n: self.work()[n] - counted[n] for n in ("cached_scores", "complete_prefix_scores")}
        return {
            "length_before": before, "length_after": seen[0].length,
            "layer_lengths": [view.length for view in seen], "cache_shape": list(seen[0].keys.shape),
            **scores,
            "max_abs_difference": f"{np.abs(logits[:, -1] - own[:, -1]).max():.12f}",
            "logits": [f"{x:.9f}" for x in logits[0, -1]],
        }

    def call_decode(self, token: int) -> Any:
        return self.adapter.decode(self.session, np.array([token]))

    def refused(self, act: Any, kind: str) -> bool:
        """Refused as it must be, and every layer as it was."""
        before = [(v.length, v.storage[0].tobytes(), v.storage[1].tobytes()) for v in self.views()]
        with pytest.raises(Rejected) as caught:
            act()
        after = [(v.length, v.storage[0].tobytes(), v.storage[1].tobytes()) for v in self.views()]
        return caught.value.kind == kind and before == after


def figures() -> dict[str, Any]:
    """The tree of the published figures, made anew."""
    own = Chapter()
    adapter, config = own.adapter, own.source.config
    refusals = {"decode_before_prefill": own.refused(lambda: own.call_decode(0), "prefill_required")}
    prefill = {"prompt": [0, 1], **own.call([0, 1])}
    refusals["prefill_nonempty"] = own.refused(
        lambda: adapter.prefill(own.session, np.array([[0]])), "prefill_not_empty"
    )
    decode = {"token": 2, "position": own.views()[0].length, **own.call([2])}
    work, before = own.work(), own.views()
    addresses = [buffer.__array_interface__["data"][0] for v in before for buffer in v.storage]
    stored = [buffer.tobytes() for v in before for buffer in v.storage]
    logits = adapter.decode(own.session, np.array([0]))
    refusals["overflow"] = own.refused(lambda: own.call_decode(0), "full")
    adapter.reset(own.session)
    reset = {"before": before[0].length, "after": own.views()[0].length}
    reset["work_zeroed"] = not any(own.work().values())
    now = [buffer for v in own.views() for buffer in v.storage]
    reset["allocation_reused"] = addresses == [b.__array_interface__["data"][0] for b in now]
    kept = [b[:, :, :3].tobytes() for b in now]
    reset["storage_unchanged"] = kept == [
        np.frombuffer(data).reshape(b.shape)[:, :, :3].tobytes() for data, b in zip(stored, now, strict=True)
    ]
    again = {"prompt": [0, 1], **own.call([0, 1])}, {"token": 2, "position": 2, **own.call([2])}
    last = adapter.decode(own.session, np.array([0]))
    reset["replay_identical"] = again == (prefill, decode) and last.tobytes() == logits.tobytes()
    adapter.close(own.session)
    rebuilt = adapter.rewire(own.model, fresh=tuple(own.model.nodes))
    changed = adapter.rewire(own.model, config=_other_base(config))
    refusals["rebuilt_model"] = own.refused(lambda: adapter.reopen(own.session, rebuilt), "model_mismatch")
    refusals["changed_config"] = own.refused(
        lambda: adapter.reopen(own.session, changed), "configuration_mismatch"
    )
    return {
        "tolerance": "2e-12", "prefill": prefill, "decode": decode, "reset": reset,
        "work": {
            **work, "layer_caches": config.layers, "layer_storage_distinct": len(set(addresses)) == 4,
            "avoided_scores": work["complete_prefix_scores"] - work["cached_scores"],
        },
        "rejections": {**refusals, "unchanged": all(refusals.values())},
        "model": {
            "vocabulary": config.vocabulary, "model_width": config.layer.model_width,
            "heads": config.layer.heads, "head_width": config.layer.head_width,
            "feed_forward_width": config.feed_forward_width, "layers": config.layers,
            "max_positions": config.layer.rope.max_positions, "rope_base": int(config.layer.rope.base),
            "rope_pairing": config.layer.rope.pairing, "rms_epsilon": "1e-6",
        },
        "parameters": {n: v.tolist() for n, v in own.source.parameters.items()},
    }  # fmt: skip


def _other_base(config: Any) -> Any:
    return replace(config, layer=replace(config.layer, rope=replace(config.layer.rope, base=200.0)))


def written(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: written(part) for key, part in value.items()}
    if isinstance(value, list):
        return [written(part) for part in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_published_figure_is_what_the_session_gives() -> None:
    made = written(figures())
    asserted = {path: value for path, value in leaves(PUBLISHED) if path[-1] not in PROSE}
    found = dict(leaves(made))
    assert asserted.keys() == found.keys()
    assert asserted == found
    assert len(asserted) > 300


def test_every_published_figure_is_shown() -> None:
    text = show("ch38")
    for path, value in leaves(PUBLISHED):
        assert value in text, path
    for prose in PROSE:
        assert PUBLISHED["model"][prose]


def test_every_prefix_has_its_exact_logits_at_forty_digits() -> None:
    for name in ("first", "second"):
        rows = DOCUMENT.rows(f"{name}.output")
        assert len(rows) == 3
        assert all(len(x.strip("-").replace(".", "").lstrip("0").partition("e")[0]) >= 39
                   for row in rows for x in row.split())  # fmt: skip
        for kept in ("keys", "values"):
            assert {f"{kept}.{layer}" for layer in (0, 1)} <= set(DOCUMENT.sequences[name].exact)


def test_the_schedules_cover_prompt_single_steps_replay_and_rejections() -> None:
    by_name = {t.id: t for t in DOCUMENT.traces()}
    assert set(by_name) == {f"ch38/{s}" for s in ("prompt", "single", "rejections", "reopened")}
    assert [s.op for s in by_name["ch38/single"].steps].count("decode") == 5
    for trace in by_name.values():
        assert all(name.startswith("DECODE-") for name in trace.requirements()), trace.id


def test_for_float32_values_and_bounds_are_those_of_rounded_weights() -> None:
    single = Precision("float32", "float32", "float32", "float32")
    declared = Declaration(name="s", levels=("decoder",), dtypes=("float32",), precision=single)
    plain = Declaration(name="d", levels=("decoder",))
    for trace in DOCUMENT.traces():
        assert bounded(trace, plain) is trace
        for before, after in zip(trace.steps, bounded(trace, declared).steps, strict=True):
            for was, now in zip(before.expect, after.expect, strict=True):
                if isinstance(was, Close) and isinstance(now, Close):
                    assert was.bound == 2e-12
                    assert 1e-9 < np.max(now.bound) < 1e-2  # type: ignore[operator]
                    assert 0 < np.abs(was.value - now.value).max() < 1e-5


def test_of_a_last_row_alone_only_the_last_row_is_expected() -> None:
    declared = Declaration(name="l", levels=("decoder",), prefill_logits="last")
    step = bounded(DOCUMENT.traces()[0], declared).steps[0]
    (wanted,) = [e for e in step.expect if isinstance(e, Close) and e.field == "output"]
    assert wanted.value.shape == (1, 1, 5)
    assert f"{wanted.value[0, 0, 0]:.9f}" == PUBLISHED["prefill"]["logits"][0]


def test_rounding_to_a_dtype_is_to_the_nearest() -> None:
    assert rounded(np.array([1 + 2.0**-24, 1 + 3 * 2.0**-24]), "float32").tolist() == [1.0, 1 + 2.0**-22]
