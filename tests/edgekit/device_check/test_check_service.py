"""What a host and the service exchange; the service itself is run by the tests of devices."""

import subprocess
import sys

import numpy as np
import pytest

from edgekit.device_check.check_service import pack, peak_memory, run_times, unpack


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "bool", "int8", "uint8", "int32", "int64", "uint64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_arrays_come_back_as_they_went(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    (back,) = unpack(pack([array]))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)


def test_the_order_is_kept_beyond_nine() -> None:
    assert [int(array) for array in unpack(pack([np.int32(number) for number in range(12)]))] == list(range(12))


def test_texts_come_back_as_objects_as_runtimes_have_them() -> None:
    texts = np.array(["", "größer", "a\nb"], dtype=object)
    (back,) = unpack(pack([texts]))
    assert back.dtype == object
    assert back.tolist() == texts.tolist()


def test_runs_that_warm_up_do_not_count() -> None:
    calls: list[int] = []
    times = run_times(lambda: calls.append(1), runs=3, warm_up=2)
    assert (len(times), len(calls)) == (3, 5)
    assert all(milliseconds >= 0 for milliseconds in times)


PEAKS = """
from edgekit.device_check.check_service import peak_memory
before = peak_memory()
large = b"x" * 10**8
del large
print(before, peak_memory())
"""


def test_the_peak_is_this_processs_own_and_includes_what_was_freed() -> None:
    """A small process that a large one starts has not the large one's peak."""
    held = bytearray(b"x" * (400 * 10**6))
    done = subprocess.run([sys.executable, "-c", PEAKS], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before < len(held) / 2
    assert 0.9e8 < after - before < 1.5e8
    ours = peak_memory()
    assert ours is not None
    assert ours > len(held)
