from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from edgekit.comparison.custom_metric import Evaluation, share_lost
from edgekit.data.samples import Sample
from edgekit.errors import InputError, RequirementError

SOURCE = """
import statistics
from helper_of_scores import double

def share(run, samples):
    return statistics.mean(double(run(sample.feeds)["y"].item() == sample.label) for sample in samples) / 2

def one_argument(run):
    return 1.0

def failing(run, samples):
    return {}["absent"]

def nothing(run, samples):
    pass

async def waiting(run, samples):
    return 1.0

def far_too_large(run, samples):
    return 10**5000

def not_a_number(run, samples):
    return float("nan")

def too_large_for_shares(run, samples):
    return 3e300

def array(run, samples):
    import numpy
    return numpy.float32(0.5)

def refusing(run, samples):
    return run({})

constant = 3
"""


class Listed(list[Sample]):
    has_labels = True


SAMPLES = Listed(Sample(str(number), {"x": np.array(number)}, label=number % 2) for number in range(4))


def parity(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": np.minimum(feeds["x"], 1)}


@pytest.fixture(autouse=True)
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the working directory, which imports another one from there."""
    name = f"scores_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    (tmp_path / "helper_of_scores.py").write_text("def double(value):\n    return 2 * value\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / f"{name}.py"


def test_the_function_gets_a_model_to_run_and_the_samples(scores: Path) -> None:
    # 0 and 1 stay, 2 and 3 become 1; the labels are 0 1 0 1: three of four are right
    assert Evaluation(f"{scores.stem}:share")(parity, SAMPLES) == 0.75
    assert Evaluation(f"{scores.stem}:array")(parity, SAMPLES) == 0.5


def test_the_search_path_stays_as_it_was(scores: Path) -> None:
    before = list(sys.path)
    Evaluation(f"{scores.stem}:share")(parity, SAMPLES)
    assert sys.path == before


def test_its_file_is_known(scores: Path) -> None:
    assert Evaluation(f"{scores.stem}:share").file == scores


def test_another_process_finds_it_by_name(scores: Path) -> None:
    parcel = pickle.dumps(Evaluation(f"{scores.stem}:array"))
    script = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1]))(None, []))"
    assert subprocess.check_output([sys.executable, "-c", script, parcel.hex()], text=True) == "0.5\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scores.f1", "scores.f1: is not an evaluation function\nexpected: MODULE:FUNCTION"),
        (":f1", ":f1: is not an evaluation function"),
        ("no_such_module:f1", "no_such_module:f1: .* cannot be imported\nfound: ModuleNotFoundError: .*\nhint: "),
        ("{}:absent", r"{}:absent: the module has no function 'absent'\nfound: {} is .*{}\.py"),
        ("{}:constant", "the module has no function 'constant'"),
        ("{}:one_argument", r"other arguments\nexpected: one_argument\(run, samples\)\nfound: one_argument\(run\)"),
    ],
)
def test_what_cannot_be_called_is_refused_before_any_work(name: str, message: str, scores: Path) -> None:
    with pytest.raises(InputError) as caught:
        Evaluation(name.replace("{}", scores.stem))
    assert re.search(message.replace("{}", scores.stem), str(caught.value))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("failing", r"the evaluation function failed\nfound: KeyError: 'absent' \({}, line 12\)"),
        ("nothing", "did not give a number\nexpected: a finite number, higher .*\nfound: a value of type NoneType"),
        ("far_too_large", "did not give a number\nexpected: a finite number, higher .*\nfound: a value of type int"),
        ("waiting", "did not give a number\nexpected: .*\nfound: a coroutine: the function is an `async def`"),
        ("not_a_number", "found: nan"),
        ("too_large_for_shares", r"of a magnitude up to 1e\+100\nfound: 3e\+300"),
    ],
)
def test_what_goes_wrong_in_it_is_told_under_its_name(function: str, message: str, scores: Path) -> None:
    with pytest.raises(InputError) as caught:
        Evaluation(f"{scores.stem}:{function}")(parity, SAMPLES)
    assert str(caught.value).startswith(f"{scores.stem}:{function}: ")
    assert re.search(message.replace("{}", str(scores)), str(caught.value))


def test_errors_of_the_model_are_not_the_functions(scores: Path) -> None:
    def broken(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        raise RequirementError("the model does not run")

    with pytest.raises(RequirementError, match="the model does not run"):
        Evaluation(f"{scores.stem}:refusing")(broken, SAMPLES)


def test_a_file_in_place_of_a_module() -> None:
    with pytest.raises(InputError) as refused:
        Evaluation("mymetric.py:f1")(lambda feeds: {}, SAMPLES)
    assert str(refused.value) == (
        "mymetric.py:f1: names a file in place of a module\nexpected: MODULE:FUNCTION\nhint: write mymetric:f1"
    )


@pytest.mark.parametrize(("original", "value", "lost"), [(1.0, 0.99, 0.01), (0.5, 0.495, 0.01), (-2.0, -2.02, 0.01)])
def test_a_loss_of_exactly_the_budget_is_no_more_than_it(original: float, value: float, lost: float) -> None:
    assert share_lost(original, value) == lost
