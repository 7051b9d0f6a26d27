"""Arguments of the Python functions that are of other types than their signatures say."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgekit
from edgekit import api
from edgekit.api_types import held_to_signature
from edgekit.errors import InputError
from edgekit.progress import Progress

FUNCTIONS = [getattr(api, name) for name in api.__all__ if inspect.isfunction(getattr(api, name))]
HELD = [each for each in FUNCTIONS if each.__name__ not in {"record", "targets"}]


class Strange:
    """A value that no argument takes."""


def arguments() -> list[Any]:
    return [
        pytest.param(function, name, id=f"{function.__name__}-{name}")
        for function in HELD
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_POSITIONAL
    ]


@pytest.mark.parametrize(("function", "name"), arguments())
def test_no_argument_takes_anything(
    function: Callable[..., object], name: str, digits: Path, bundle: Path, tmp_path: Path
) -> None:
    given = {
        "model": digits,
        "bundle": bundle,
        "target": "onnxruntime",
        "output": tmp_path / "out",
        "outputs": "logits",
        "key": tmp_path / "key",
    }
    parameters = inspect.signature(function).parameters.values()
    needed = {each.name: given[each.name] for each in parameters if each.default is each.empty and each.name in given}
    with pytest.raises(InputError):
        function(**{**needed, name: Strange()})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: api.check(m, None), "--target: is of another type\nexpected: a text\nfound: NoneType None"),
        (
            lambda m: api.package(m, "ort", progress=print),
            "progress: is of another type\nexpected: an edgekit.progress.Progress or None\nfound: builtin_function_or",
        ),
        (
            lambda m: api.package(m, "ort", floor="20"),
            "--floor: is of another type\nexpected: a number or None\nfound: str '20'",
        ),
        (
            lambda m: api.package(m, "ort", floor=float("nan")),
            "--floor: cannot be used\nexpected: a finite number\nfound: nan",
        ),
        (
            lambda m: api.verify(m, device_timeout=np.float32("inf")),
            "--device-timeout: cannot be used\nexpected: a finite number\nfound: inf",
        ),
        (lambda m: api.package(m, "ort", workers="2"), "--workers: is of another type\nexpected: a whole number\n"),
        (lambda m: api.package(m, "ort", accept="no"), "--accept: is of another type\nexpected: True or False\n"),
        (
            lambda m: api.package(m, "ort", options={"a": 1}),
            "--option: is of another type\nexpected: a dict of texts or None\nfound: dict {'a': 1}",
        ),
        (lambda m: api.package(m, "ort", also=[1]), "--also: is of another type\nexpected: texts\nfound: list [1]"),
        (lambda m: api.package(m, "ort", dims={1: 1}), "--dim: a name is not a text\nexpected: a dict, {name: size}"),
        (lambda m: api.package(m, "ort", dims={"batch": True}), "--dim batch: has no size\n"),
        (
            lambda m: api.verify(m, device_timeout=-1),
            "--device-timeout: is not a time\nexpected: seconds, more than 0\nfound: -1",
        ),
        (lambda m: api.gate(m, time_limit=0), "--time-limit: is not a time\nexpected: seconds, more than 0\nfound: 0"),
    ],
)
def test_what_errors_say(digits: Path, call: Callable[[Path], object], text: str) -> None:
    with pytest.raises(InputError) as refused:
        call(digits)
    assert str(refused.value).startswith(text)


def test_numbers_of_numpy_become_python_s_own() -> None:
    """The manifest, which is JSON, could not be written with them, after the whole build."""

    @held_to_signature
    def called(number: float | None, *, count: int | str, flag: bool) -> list[object]:
        return [number, count, flag]

    given = called(np.float32(20), count=np.int64(3), flag=np.bool_(True))  # type: ignore[arg-type]
    assert [(type(one), one) for one in given] == [(float, 20.0), (int, 3), (bool, True)]
    assert called(1, count="3MB", flag=False) == [1, "3MB", False]
    with pytest.raises(InputError, match="--count: is of another type"):
        called(1, count=np.array([1, 2]), flag=False)  # type: ignore[arg-type]


def test_what_counts_as_the_type() -> None:
    @held_to_signature
    def called(
        number: float | None = None,
        count: int = 1,
        flag: bool = False,
        names: Iterable[str] = (),  # noqa: F821
    ) -> list[str]:
        return [*names]

    for given in (1, 0.5, np.float32(2), np.int64(3), Fraction(1, 3)):
        called(given)
    called(count=np.int32(4), flag=np.bool_(True))  # type: ignore[arg-type]  # what NumPy computes
    assert called(names=(name for name in ("a", "b"))) == ["a", "b"]


def test_signatures_stay_and_unknown_arguments_are_the_function_s_error(digits: Path) -> None:
    assert "dims" in inspect.signature(edgekit.inspect).parameters
    assert str(edgekit.inspect.__doc__).startswith("What goes into a model")
    with pytest.raises(TypeError, match=r"inspect\(\) got an unexpected keyword argument 'dim'"):
        edgekit.inspect(digits, dim={})  # type: ignore[call-arg]
    assert edgekit.inspect(digits, progress=Progress()).opset == 18
