from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from edgekit.processes import matrix_products
from edgekit.processes.matrix_products import on_one_thread


class Library:
    """OpenBLAS as far as it is asked."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def get(self) -> int:
        return self.threads

    def set_to(self, threads: int) -> None:
        self.threads = threads


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library(4)
    monkeypatch.setattr(matrix_products, "_functions", lambda: (library.get, library.set_to))
    return library


def test_products_take_one_thread_inside_and_as_many_as_before_afterwards(library: Library) -> None:
    with on_one_thread():
        assert library.threads == 1
        with on_one_thread():
            pass
        assert library.threads == 1
    assert library.threads == 4


def test_they_take_as_many_as_before_after_an_error(library: Library) -> None:
    with pytest.raises(KeyError), on_one_thread():
        raise KeyError
    assert library.threads == 4


def test_the_last_of_several_threads_that_leaves_gives_them_back(library: Library) -> None:
    both, left = Barrier(2), Barrier(2)

    def first() -> None:
        with on_one_thread():
            both.wait(30)
        left.wait(30)

    with ThreadPoolExecutor(1) as other:
        done = other.submit(first)
        with on_one_thread():
            both.wait(30)
            left.wait(30)
            assert library.threads == 1
        done.result()
    assert library.threads == 4


def test_another_library_takes_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_products, "_functions", lambda: None)
    with on_one_thread():
        assert (np.ones((2, 3)) @ np.ones((3, 2))).tolist() == [[3, 3], [3, 3]]


def test_the_openblas_of_numpys_wheels_is_found() -> None:
    if "openblas" not in str(np.show_config("dicts")["Build Dependencies"]["blas"]["name"]):
        pytest.skip("NumPy has another library")
    functions = matrix_products._functions()
    assert functions is not None
    get, _ = functions
    before = get()
    with on_one_thread():
        assert get() == 1
    assert get() == before
