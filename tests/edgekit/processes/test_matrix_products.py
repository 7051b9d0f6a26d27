from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import ThreadpoolController

from edgekit.processes.matrix_products import on_one_thread


def threads() -> list[int]:
    """How many threads each library of matrix products takes, read anew."""
    return [each["num_threads"] for each in ThreadpoolController().info() if each["user_api"] == "blas"]


@pytest.fixture
def two() -> Iterator[None]:
    """Two threads, whatever the machine has."""
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two")
def test_products_take_one_thread_inside_and_as_many_as_before_afterwards() -> None:
    before = threads()
    with on_one_thread():
        inside = threads()
        with on_one_thread():
            pass
        assert threads() == inside
    assert inside == [1] * len(before)
    assert threads() == before == [2] * len(before)


@pytest.mark.usefixtures("two")
def test_they_take_as_many_as_before_after_an_error() -> None:
    before = threads()
    with pytest.raises(KeyError), on_one_thread():
        raise KeyError
    assert threads() == before
