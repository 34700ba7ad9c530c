"""The decoder session: published figures of chapter 38, phases, reset, close, locked parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference_impl.decoder import DecoderCache, DecoderModel, DecoderSession, decode, full_prefix, prefill
from reference_impl.exact import fixed_point
from reference_impl.exact_decoder import exact_pass
from reference_impl.layer_errors import CacheError
from tests.decoder_models import FIGURES, PUBLISHED_CONFIG, config, parameters, published_parameters

Array = np.ndarray[Any, Any]


def published_session(capacity: int = 4) -> DecoderSession:
    return DecoderSession.open(DecoderModel.build(PUBLISHED_CONFIG, published_parameters()), 1, capacity)


def refusal(call: Any) -> CacheError:
    with pytest.raises(CacheError) as caught:
        call()
    return caught.value


def storage(cache: DecoderCache) -> list[tuple[int, bytes]]:
    buffers = [buffer for layer in cache.layers for buffer in (layer.key_storage, layer.value_storage)]
    return [(buffer.ctypes.data, buffer.tobytes()) for buffer in buffers]


def everything(session: DecoderSession) -> tuple[Any, ...]:
    cache = session.cache
    return storage(cache), [layer.length for layer in cache.layers], cache.prefilled, cache.work


def printed(row: Array) -> list[str]:
    return [fixed_point(float(x), 9) for x in row]


def test_every_published_figure() -> None:
    session = published_session()
    prefilled = session.prefill([[0, 1]])
    assert printed(prefilled[0, -1]) == FIGURES["logits"]["after_prefill_of_0_1"]
    assert [layer.length for layer in session.cache.layers] == [2, 2]
    assert [layer.snapshot()[0].shape for layer in session.cache.layers] == [(1, 2, 2, 2)] * 2
    assert (session.work.cached_scores, session.work.complete_prefix_scores) == (12, 16)
    decoded = session.decode([2])
    assert printed(decoded[0, 0]) == FIGURES["logits"]["after_decode_of_2"]
    assert [layer.length for layer in session.cache.layers] == [3, 3]
    assert [layer.snapshot()[1].shape for layer in session.cache.layers] == [(1, 2, 3, 2)] * 2
    work = session.work
    assert (work.prefill_tokens, work.decode_tokens) == (2, 1)
    assert (work.cache_appends, work.qkv_rows) == (6, 18)
    assert (work.cached_scores, work.complete_prefix_scores, work.avoided_scores) == (24, 52, 28)
    complete = full_prefix(session.model, [[0, 1, 2]])
    assert np.abs(np.concatenate([prefilled, decoded], axis=1) - complete).max() <= 2e-12


def test_logits_keys_and_values_are_those_of_the_exact_decoder() -> None:
    session = published_session()
    logits = np.concatenate([session.prefill([[0, 1]]), session.decode([2]), session.decode([4])], axis=1)
    exact = exact_pass(PUBLISHED_CONFIG, published_parameters(), [0, 1, 2, 4])
    assert np.abs(logits[0] - np.array(exact.logits, dtype=np.float64)).max() <= 2e-12
    for layer, keys, values in zip(session.cache.layers, exact.keys, exact.values, strict=True):
        held = layer.snapshot()
        assert np.abs(held[0][0] - np.array(keys, dtype=np.float64)).max() <= 1e-12
        assert np.abs(held[1][0] - np.array(values, dtype=np.float64)).max() <= 1e-12


def test_layer_storages_are_distinct_and_never_move() -> None:
    session = published_session()
    addresses = [address for address, _ in storage(session.cache)]
    assert len(set(addresses)) == 4
    session.prefill([[0, 1]])
    session.decode([2])
    session.reset()
    assert [address for address, _ in storage(session.cache)] == addresses


def test_every_lane_counts_as_work() -> None:
    of = config()
    session = DecoderSession.open(DecoderModel.build(of, parameters(of)), 2, 5)
    session.prefill([[0, 1, 2], [3, 4, 5]])
    session.decode([6, 0])
    work = session.work
    assert (work.prefill_tokens, work.decode_tokens, work.cache_appends, work.qkv_rows) == (6, 2, 12, 72)
    assert work.cached_scores == 2 * 3 * 6 * (1 + 2 + 3 + 4)
    assert work.complete_prefix_scores == 2 * 3 * 6 * (9 + 16)


def test_reset_zeroes_length_phase_and_work_and_keeps_all_else() -> None:
    session = published_session()
    first = [session.prefill([[0, 1]]), session.decode([2])]
    held, work = storage(session.cache), session.work
    session.reset()
    assert storage(session.cache) == held
    assert (session.length, session.cache.prefilled) == (0, False)
    assert session.work == type(work)()
    assert refusal(lambda: session.decode([2])).kind == "prefill_required"
    again = [session.prefill([[0, 1]]), session.decode([2])]
    assert [a.tobytes() for a in first] == [a.tobytes() for a in again]
    assert (storage(session.cache), session.work) == (held, work)


def test_other_tokens_after_a_reset_equal_a_fresh_session() -> None:
    used, fresh = published_session(), published_session()
    used.prefill([[0, 1, 2, 3]])
    used.reset()
    for call in (lambda s: s.prefill([[4]]), lambda s: s.decode([3]), lambda s: s.decode([3])):
        assert call(used).tobytes() == call(fresh).tobytes()


def test_decode_before_prefill_and_prefill_twice_are_refused() -> None:
    session = published_session()
    before = everything(session)
    assert refusal(lambda: session.decode([1])).kind == "prefill_required"
    assert everything(session) == before
    session.prefill([[1]])
    held = everything(session)
    refused = refusal(lambda: session.prefill([[1]]))
    assert (refused.kind, refused.carried()) == ("prefill_not_empty", (1,))
    assert everything(session) == held
    session.decode([2])


def test_a_full_session_refuses_and_replays_after_a_reset() -> None:
    session = published_session(capacity=3)
    logits = session.prefill([[0, 1, 2]])
    before = everything(session)
    assert refusal(lambda: session.decode([0])).kind == "full"
    assert everything(session) == before
    session.reset()
    assert session.prefill([[0, 1, 2]]).tobytes() == logits.tobytes()


def test_parameters_are_locked_while_any_session_is_open() -> None:
    model = DecoderModel.build(PUBLISHED_CONFIG, published_parameters())
    one, two = DecoderSession.open(model, 1, 4), DecoderSession.open(model, 1, 4)
    twin = published_session()
    one.prefill([[0, 1]])
    twin.prefill([[0, 1]])
    update = {"final_norm.gain": [2.0, 1.0, 1.0, 1.0]}
    for still_open, close in ((2, two.close), (1, one.close)):
        refused = refusal(lambda: model.update(update))
        assert (refused.kind, refused.carried()) == ("parameters_locked", (still_open,))
        assert all(node.revision == 0 for node in model.nodes.values())
        assert (model.value("final_norm.gain") == 1.0).all()
        if still_open == 1:
            assert one.decode([2]).tobytes() == twin.decode([2]).tobytes()
        close()
        close()
    model.update(update)
    assert model.nodes["final_norm.gain"].revision == 1


def test_models_that_share_nodes_share_the_lock() -> None:
    model = DecoderModel.build(PUBLISHED_CONFIG, published_parameters())
    sharing = model.rewired(fresh=["final_norm.gain"])
    apart = model.rewired(fresh=list(model.nodes))
    with DecoderSession.open(model, 1, 4):
        assert refusal(lambda: sharing.update({"final_norm.gain": [1.0] * 4})).kind == "parameters_locked"
        apart.update({"final_norm.gain": [1.0] * 4})
    sharing.update({"final_norm.gain": [1.0] * 4})


def test_after_close_and_update_the_old_cache_is_stale_also_after_a_reset() -> None:
    session = published_session()
    session.prefill([[0, 1]])
    model, cache = session.model, session.cache
    session.close()
    name = "blocks.1.ffn.up.weight"
    model.update({name: model.value(name)})
    expected = ("stale_parameters", (list(model.nodes).index(name), name, 0, 1))
    for call in (lambda: DecoderSession(model, cache), lambda: decode(model, cache, [2])):
        refused = refusal(call)
        assert (refused.kind, refused.carried()) == expected
    cache.reset()
    refused = refusal(lambda: prefill(model, cache, [[0, 1]]))
    assert (refused.kind, refused.carried()) == expected
    reopened = DecoderSession.open(model, 1, 4)
    reopened.prefill([[0, 1]])
    assert printed(reopened.decode([2])[0, 0]) == FIGURES["logits"]["after_decode_of_2"]


def test_a_node_updated_behind_the_models_back_is_noticed_by_an_open_session() -> None:
    session = published_session()
    session.prefill([[0, 1]])
    session.model.nodes["token_embedding.weight"].update(np.zeros((5, 4)))
    before = everything(session)
    assert refusal(lambda: session.decode([2])).kind == "stale_parameters"
    assert everything(session) == before


def test_a_closed_session_refuses_every_call_and_its_cache_can_be_opened_again() -> None:
    session, twin = published_session(), published_session()
    for each in (session, twin):
        each.prefill([[0, 1]])
    session.close()
    before = everything(session)
    for call in (lambda: session.prefill([[0]]), lambda: session.decode([2]), session.reset,
                 lambda: session.decode([[99]])):
        assert refusal(call).kind == "session_closed"
    assert everything(session) == before
    assert not session.is_open
    again = DecoderSession(session.model, session.cache)
    assert again.decode([2]).tobytes() == twin.decode([2]).tobytes()


def test_a_context_manager_closes_on_an_error_too() -> None:
    session = published_session()
    with pytest.raises(CacheError), session:
        session.decode([0])
    assert not session.is_open
    assert session.model.sessions.count == 0


def test_two_sessions_of_one_model_do_not_disturb_each_other() -> None:
    model = DecoderModel.build(PUBLISHED_CONFIG, published_parameters())
    one, two = DecoderSession.open(model, 1, 4), DecoderSession.open(model, 1, 4)
    alone = published_session()
    one.prefill([[3, 1]])
    two.prefill([[0, 1]])
    alone.prefill([[0, 1]])
    one.decode([4])
    assert two.decode([2]).tobytes() == alone.decode([2]).tobytes()


def test_the_callers_tokens_are_neither_kept_nor_changed() -> None:
    session, twin = published_session(), published_session()
    prompt = np.array([[0, 1]])
    session.prefill(prompt)
    twin.prefill(prompt)
    assert prompt.tolist() == [[0, 1]]
    prompt[:] = 4
    assert session.decode([2]).tobytes() == twin.decode([2]).tobytes()


def test_opening_refuses_what_no_layer_cache_can_be() -> None:
    model = DecoderModel.build(PUBLISHED_CONFIG, published_parameters())
    for batch_size, capacity, kind in ((0, 1, "zero_batch_size"), (1, 0, "zero_capacity"),
                                       (1, 5, "capacity_exceeds_positions")):
        assert refusal(lambda b=batch_size, c=capacity: DecoderSession.open(model, b, c)).kind == kind
    assert model.sessions.count == 0
