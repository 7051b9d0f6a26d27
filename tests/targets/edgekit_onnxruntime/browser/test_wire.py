from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from edgekit.errors import InputError
from edgekit_onnxruntime.browser.wire import NUMBERS, Message


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(), (0, 4), (2, 3)])
def test_numbers_come_back_as_they_went(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    back = Message.decode(Message({}, {"x": array}).encode()).arrays["x"]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)


def test_a_message_is_a_length_a_record_and_the_arrays_bytes() -> None:
    message = Message({"task": "run"}, {"a": np.array([1, 258], ">i4"), "b": np.array(True)}).encode()
    (length,) = struct.unpack_from("<I", message)
    assert json.loads(message[4 : 4 + length]) == {
        "task": "run",
        "arrays": [
            {"name": "a", "type": "int32", "dims": [2], "bytes": 8},
            {"name": "b", "type": "bool", "dims": [], "bytes": 1},
        ],
    }
    assert message[4 + length :] == bytes([1, 0, 0, 0, 2, 1, 0, 0, 1])


def test_texts_come_back_as_they_went() -> None:
    texts = np.array([["a", "ß"], ["", '"\n']], dtype=object)
    back = Message.decode(Message({}, {"x": texts}).encode()).arrays["x"]
    assert back.tolist() == texts.tolist()


def test_rows_may_lie_anywhere() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    np.testing.assert_array_equal(Message.decode(Message({}, {"x": array}).encode()).arrays["x"], array)


def test_types_that_the_browser_lacks_are_refused() -> None:
    with pytest.raises(InputError, match="no such element type"):
        Message({}, {"x": np.zeros(2, ml_dtypes.bfloat16)}).encode()
