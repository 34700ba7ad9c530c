"""Hostile drivers that write what is not the reply."""

import json
import os

from driver import Driver, at_append, hostile, raw, send


@at_append
def replies_twice(request, result):
    line = json.dumps({"seq": request["seq"], "result": result}).encode() + b"\n"
    raw(line + line)


@at_append
def replies_to_the_request_before(request, result):
    send({"seq": request["seq"] - 1, "result": result})


@at_append
def replies_to_the_request_to_come(request, result):
    send({"seq": request["seq"] + 1, "result": result})


@hostile
def replies_before_it_is_asked():
    send({"seq": 1, "result": {"protocol": 1, "declaration": Driver.declaration}})
    send({"seq": 2, "result": None})
    Driver().run()


@at_append
def leaves_seq_out(request, result):
    send({"result": result})


@at_append
def says_seq_as_text(request, result):
    send({"seq": str(request["seq"]), "result": result})


@at_append
def says_seq_as_true(request, result):
    send({"seq": True, "result": result})


@at_append
def writes_an_empty_line(request, result):
    raw(b"\n")


@at_append
def prints_on_stdout(request, result):
    raw(b"step 2 done, loss 0.25\n")
    send({"seq": request["seq"], "result": result})


@at_append
def writes_a_list(request, result):
    send([request["seq"], result])


@at_append
def cuts_its_json(request, result):
    raw(json.dumps({"seq": request["seq"], "result": result}).encode()[:-5] + b"\n")


@at_append
def cuts_its_json_and_leaves(request, result):
    raw(json.dumps({"seq": request["seq"], "result": result}).encode()[:-5])
    os._exit(0)


@at_append
def writes_no_utf8(request, result):
    raw(b'{"seq": %d, "result": "\xff\xfe"}\n' % request["seq"])


@at_append
def writes_zero_bytes(request, result):
    raw(b"\x00" * 100 + b"\n")


@at_append
def writes_utf16(request, result):
    raw(json.dumps({"seq": request["seq"], "result": result}).encode("utf-16") + b"\n")


@at_append
def nests_lists(request, result):
    raw(b'{"seq": %d, "result": ' % request["seq"] + b"[" * 9000 + b"]" * 9000 + b"}\n")


@at_append
def nests_objects(request, result):
    raw(b'{"seq": %d, "result": ' % request["seq"] + b'{"a":' * 9000 + b"1" + b"}" * 9000 + b"}\n")


@at_append
def nests_a_million_lists(request, result):
    raw(b"[" * 10**6 + b"\n")


@at_append
def says_a_key_twice(request, result):
    raw(b'{"seq": %d, "result": {"output": 1}, "result": {"output": 2}}\n' % request["seq"])


@at_append
def writes_nan(request, result):
    raw(
        b'{"seq": %d, "result": {"output": {"dtype": "float64", "shape": [1], "data": [NaN]}}}\n'
        % request["seq"]
    )


@at_append
def writes_infinity(request, result):
    raw(b'{"seq": %d, "result": {"output": -Infinity}}\n' % request["seq"])


@at_append
def writes_a_number_of_5000_digits(request, result):
    raw(b'{"seq": %d, "result": %s}\n' % (request["seq"], b"7" * 5000))


@at_append
def answers_two_ways(request, result):
    send({"seq": request["seq"], "result": result, "rejected": {"kind": "full"}})


@at_append
def answers_no_way(request, result):
    send({"seq": request["seq"]})


@at_append
def misspells_rejected(request, result):
    send({"seq": request["seq"], "reject": {"kind": "full"}})
