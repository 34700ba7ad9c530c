"""Numbers in messages keep every bit, and what is no number is refused by name."""

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from conformance.wire.echo import awkward_values, echo_values, lost_in_echo
from conformance.wire.errors import MessageError
from conformance.wire.lines import read_line, write_line
from conformance.wire.numbers import Numbers, bits_of, from_bits

MODES = ("decimal", "bits")


def travelled(array, mode):
    """An array after a trip through a line of text."""
    numbers = Numbers(mode)
    return numbers.array_in(read_line(write_line({"a": numbers.array_out(array)})[:-1])["a"], "a")


@given(
    arrays.arrays(np.float64, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)),
    st.sampled_from(MODES),
)
def test_float64_arrays_come_back_bit_for_bit(array, mode):
    array = np.where(np.isnan(array), np.nan, array)
    back = travelled(array, mode)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(back.view(np.uint64), array.view(np.uint64))


@given(
    st.sampled_from(["float32", "float16", "int64", "int8", "uint64", "bool"]).flatmap(
        lambda t: arrays.arrays(t, 5)
    ),
    st.sampled_from(MODES),
)
def test_other_dtypes_come_back(array, mode):
    assert np.array_equal(travelled(array, mode), array, equal_nan=array.dtype.kind == "f")
    assert travelled(array, mode).dtype == array.dtype


def test_bfloat16_comes_back():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.0, -0.0, 3.0e38, np.nan], dtype=ml_dtypes.bfloat16)
    back = travelled(array, "decimal")
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


@given(st.floats(), st.sampled_from(MODES))
def test_a_lone_number_comes_back(value, mode):
    back = Numbers(mode).number_in(json.loads(json.dumps(Numbers(mode).number_out(value))), "x")
    assert bits_of(back) == bits_of(value) or (math.isnan(back) and math.isnan(value))


@given(st.floats())
def test_bits_are_those_of_the_number(value):
    assert struct.pack(">d", from_bits(bits_of(value))) == struct.pack(">d", value)


@pytest.mark.parametrize("text", ["-0", "-0.0", '"-0"', "-0e5"])
def test_minus_zero_is_read_however_it_is_written(text):
    line = b'{"a": {"dtype": "float64", "shape": [2], "data": [1, %s]}}' % text.encode()
    back = Numbers().array_in(read_line(line)["a"], "a")
    assert math.copysign(1.0, back[1]) == -1.0


@pytest.mark.parametrize(
    "data",
    [[1e999], [10**400], [0.0, "1e999"], [True], [None], ["0.5"], ["Infinity"], [[1.0]], [" inf"], ["NaN"]],
)
def test_what_is_no_float_is_refused_with_its_place(data):
    message = {"dtype": "float64", "shape": [len(data)], "data": data}
    with pytest.raises(MessageError, match=rf"^a\.data\[{len(data) - 1}\]: ") as caught:
        Numbers().array_in(message, "a")
    assert "number" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        ["3ff000000000000"],
        ["3ff00000000000000"],
        ["0x3ff00000000000"],
        [1.0],
        ["3ff0000000 00000"],
        ["zzzzzzzzzzzzzzzz"],
        ["3ff0000000000000", "nan"],
        ["٣ff0000000000000"],
    ],
)
def test_what_is_no_bit_pattern_is_refused_with_its_place(data):
    with pytest.raises(MessageError, match=rf"^a\.data\[{len(data) - 1}\]: .*16 hex digits"):
        Numbers("bits").array_in({"dtype": "float64", "shape": [len(data)], "data": data}, "a")


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("int8", [128]),
        ("int64", [2**63]),
        ("int64", [1.0]),
        ("uint8", [-1]),
        ("bool", [1]),
        ("int64", [True]),
        ("float16", [1e6]),
        ("float32", [1e39]),
    ],
)
def test_a_number_outside_its_dtype_is_refused(dtype, data):
    with pytest.raises(MessageError, match=dtype):
        Numbers().array_in({"dtype": dtype, "shape": [1], "data": data}, "a")


def test_an_array_without_a_name_here_is_not_sent():
    with pytest.raises(MessageError, match="dtype complex128 cannot be sent"):
        Numbers().array_out(np.zeros(2, complex))


def answer(change=lambda x: x, seen=lambda x: x):
    values = echo_values()
    written = np.array([change(x) for x in values.tolist()])
    return {"values": Numbers().array_out(written), "bits": [bits_of(seen(x)) for x in values.tolist()]}


def test_the_echo_holds_every_awkward_sort():
    values = awkward_values()
    smallest = 2.0**-1022
    assert any(0 < abs(x) < smallest for x in values)
    assert any(x == 0 and math.copysign(1, x) < 0 for x in values)
    assert {math.inf, -math.inf, 1.7976931348623157e308, -1.7976931348623157e308} <= set(values)
    assert any(math.isnan(x) for x in values)
    assert sum(len(repr(abs(x)).split("e")[0].replace(".", "").strip("0")) == 17 for x in values) >= 8
    assert {math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)} <= set(values)


def test_a_faithful_echo_loses_nothing():
    assert lost_in_echo(answer(), Numbers()) is None


@pytest.mark.parametrize("index", range(len(awkward_values())))
def test_one_flipped_bit_anywhere_is_found_and_named(index):
    whole = answer()
    value = awkward_values()[index]
    flipped = 1.0 if math.isnan(value) else from_bits(f"{int(bits_of(value), 16) ^ 1:016x}")
    if math.isfinite(flipped):
        whole["values"]["data"][index] = flipped
        lost = lost_in_echo(whole, Numbers())
        assert f"writer loses bits: value {index} of the echo" in lost
        assert bits_of(value) in lost
        assert bits_of(flipped) in lost
    whole = answer()
    whole["bits"][index] = bits_of(flipped)
    found = lost_in_echo(whole, Numbers())
    assert math.isnan(value) == math.isnan(flipped) is True or f"reader loses bits: value {index} " in found


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        {"values": {}, "bits": []},
        {"values": 1, "bits": ["00"]},
        {
            "values": {"dtype": "float64", "shape": [1], "data": [0]},
            "bits": [bits_of(x) for x in awkward_values()],
        },
    ],
)
def test_an_answer_that_is_no_echo_is_refused(result):
    with pytest.raises(MessageError):
        lost_in_echo(result, Numbers())
