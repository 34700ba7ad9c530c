"""Parameter nodes: a read-only copy, an identity, a revision."""

from __future__ import annotations

import numpy as np
import pytest

from reference_impl.parameter import Parameter


def test_value_is_a_copy_that_no_one_can_write() -> None:
    given = np.ones((2, 3))
    node = Parameter(given)
    given[:] = 7.0
    assert np.array_equal(node.value, np.ones((2, 3)))
    with pytest.raises(ValueError, match="read-only"):
        node.value[0, 0] = 2.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        node.value.setflags(write=True)


def test_value_is_row_major_float64_whatever_was_given() -> None:
    node = Parameter(np.arange(6, dtype=np.int8).reshape(2, 3).T)
    assert node.value.dtype == np.float64
    assert node.value.flags.c_contiguous


def test_update_raises_the_revision_by_one_also_with_equal_numbers() -> None:
    node = Parameter([1.0, 2.0], revision=4)
    node.update(node.value)
    assert (node.revision, node.value.tolist()) == (5, [1.0, 2.0])
    node.update([3.0, 4.0])
    assert (node.revision, node.value.tolist()) == (6, [3.0, 4.0])


@pytest.mark.parametrize("wrong", [[1.0], [[1.0, 2.0]], 1.0, ["a", "b"]])
def test_a_refused_update_changes_nothing(wrong: object) -> None:
    node = Parameter([1.0, 2.0])
    with pytest.raises(ValueError, match=r"shape|convert"):
        node.update(wrong)  # type: ignore[arg-type]
    assert (node.revision, node.value.tolist()) == (0, [1.0, 2.0])


def test_a_rebuilt_node_has_equal_numbers_and_another_identity() -> None:
    node = Parameter([1.0], revision=3)
    twin = node.rebuilt()
    assert twin is not node
    assert twin != node
    assert (twin.revision, twin.value.tolist()) == (3, [1.0])


def test_update_leaves_arrays_handed_out_before_as_they_were() -> None:
    node = Parameter([1.0])
    before = node.value
    node.update([2.0])
    assert before.tolist() == [1.0]
