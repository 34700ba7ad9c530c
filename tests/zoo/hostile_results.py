"""Hostile drivers whose replies say what cannot be."""

from driver import ZOO, Answering, Driver, at_append, hostile, raw, send


def answering(name, method, result):
    ZOO[name] = lambda: Answering(method, result).run()


OUTPUT = {"dtype": "float64", "shape": [1, 1, 4]}
answering("says_a_shape_without_data", "append", {"output": {**OUTPUT, "shape": [2**30, 2**30], "data": []}})
answering("says_a_shape_of_nothing", "append", {"output": {**OUTPUT, "shape": [2**39, 2**39, 0], "data": []}})
answering("says_a_negative_shape", "append", {"output": {**OUTPUT, "shape": [-1, -1, -4], "data": [0.0] * 4}})
answering("says_a_shape_of_100_axes", "append", {"output": {**OUTPUT, "shape": [1] * 100, "data": [0.0]}})
answering("sends_less_than_it_says", "append", {"output": {**OUTPUT, "data": [0.0] * 3}})
answering("sends_nested_lists", "append", {"output": [[[0.0, 0.0, 0.0, 0.0]]]})
answering("sends_numbers_as_text", "append", {"output": {**OUTPUT, "data": ["0.0"] * 4}})
answering("sends_truth_values", "append", {"output": {**OUTPUT, "data": [True] * 4}})
answering("sends_no_output", "append", None)
answering("sends_a_null_output", "append", {"output": None})
answering("sends_another_dtype", "append", {"output": {**OUTPUT, "dtype": "complex128", "data": [0.0] * 4}})
answering("sends_an_object_dtype", "append", {"output": {**OUTPUT, "dtype": "object", "data": [0.0] * 4}})
answering("misspells_a_field", "append", {"output": {**OUTPUT, "data": [0.0] * 4}, "wieghts": None})
answering("says_length_nan", "observe", {"length": "nan"})
answering("says_length_minus_one", "observe", {"length": -1})
answering("says_length_as_a_fraction", "observe", {"length": 1.0})
answering("says_length_as_text", "observe", {"length": "1"})
answering("says_length_true", "observe", {"length": True})
answering("says_storage_without_address", "observe", {"length": 1, "storage": [{"digest": "0"}]})
answering("says_storage_as_numbers", "observe", {"length": 1, "storage": [1, 2]})
answering("gives_a_handle_twice", "build_cache", {"handle": 1})
answering("gives_a_handle_as_text", "build_layer", {"handle": "layer"})
answering("answers_reset_with_a_result", "reset", {"length": 0})
answering("speaks_another_protocol", "hello", {"protocol": 2, "declaration": Driver.declaration})
answering(
    "claims_an_unknown_feature",
    "hello",
    {"protocol": 1, "declaration": {**Driver.declaration, "features": ["speed"]}},
)
answering(
    "claims_an_unknown_level", "hello", {"protocol": 1, "declaration": {"name": "x", "levels": ["universe"]}}
)
answering("claims_nothing", "hello", {})


@at_append
def overflows_to_infinity(request, result):
    data = b'{"dtype": "float64", "shape": [1, 1, 1], "data": [1e400]}'
    raw(b'{"seq": %d, "result": {"output": %s}}\n' % (request["seq"], data))


@at_append
def overflows_as_a_whole_number(request, result):
    data = b'{"dtype": "float64", "shape": [1, 1, 1], "data": [1%s]}' % (b"0" * 400)
    raw(b'{"seq": %d, "result": {"output": %s}}\n' % (request["seq"], data))


@at_append
def refuses_with_a_kind_of_its_own(request, result):
    send({"seq": request["seq"], "rejected": {"kind": "not_in_the_mood"}})


@at_append
def answers_with_an_error(request, result):
    send({"seq": request["seq"], "error": {"type": "OutOfCheese", "message": "redo from start"}})


@hostile
def lacks_a_feature_that_it_claims():
    class Claims(Driver):
        declaration = {**Driver.declaration, "features": ["full_prefix"]}  # noqa: RUF012

        def reply(self, request, result):
            if request["method"] == "full_prefix":
                send({"seq": request["seq"], "error": {"message": "not implemented"}})
            else:
                super().reply(request, result)

        def full_prefix(self, request):
            return None

    Claims().run()
