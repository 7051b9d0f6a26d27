from __future__ import annotations

import pytest

from edgekit.errors import InputError
from edgekit.faults import as_edgekit_error


@pytest.mark.parametrize(
    "failure",
    [
        MemoryError("Unable to allocate 1.00 TiB for an array"),
        RuntimeError("pthread_create failed, error code: 12 error msg: Cannot allocate memory"),
        RuntimeError("[ONNXRuntimeError] : Failed to allocate memory for requested buffer of size 17"),
        RuntimeError("std::bad_alloc"),
    ],
    ids=["Python", "a thread", "a buffer", "C++"],
)
def test_memory_that_runs_out_is_no_fault_of_edgekit(failure: Exception) -> None:
    error = as_edgekit_error(failure)
    assert isinstance(error, InputError)
    assert str(error) == (
        f"needs more memory than there is: {failure}\nhint: `--max-memory SIZE` allows more, where the model needs it"
    )
