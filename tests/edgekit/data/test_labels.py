from pathlib import Path

import pytest

from edgekit.data.labels import check_class_names, check_order, read_class_names
from edgekit.errors import InputError
from edgekit.model import Dim, ValueSpec

FILE = Path("names.txt")


def outputs(*shapes: tuple[Dim, ...] | None) -> list[ValueSpec]:
    return [ValueSpec(f"y{number}", "float32", shape) for number, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 3)],
        [(3,)],
        [(1, 3, 1, 1)],
        [(1, 512), (1, 3)],
        [(1, 100), (1, 100, 4)],
        [("N", 5)],
        [None],
        [],
    ],
    ids=str,
)
def test_names_that_may_be_right(shapes: list[tuple[Dim, ...] | None]) -> None:
    check_class_names(["a", "b", "c"], FILE, [*outputs(*shapes), ValueSpec("class", "int64", (1,))])


def test_names_that_no_output_fits() -> None:
    with pytest.raises(InputError) as failure:
        check_class_names(["a", "b", "c"], FILE, outputs((1, 4), (1, 2, 1)))
    assert str(failure.value) == (
        "names.txt: the number of names is not the number of classes\n"
        "expected: 4 names, the entries of output 'y0'; 2 names, the entries of output 'y1'\n"
        "found: 3 names\n"
        "hint: write one name on each line, for every class, in the order of the model's output"
    )


def test_names_in_another_order_than_the_graph_states_are_refused() -> None:
    with pytest.raises(InputError, match="the names of the classes are in another order than the model's") as error:
        check_order(["Stay", "churn"], FILE, ["churn", "stay"], in_graph=True)
    assert error.value.expected == "churn, stay, as the model's file states them"
    assert error.value.found == "Stay, churn"


def test_names_in_another_order_than_the_metadata_state_are_warned_of() -> None:
    warning = check_order(["stay", "churn"], FILE, ["churn", "stay"], in_graph=False)
    assert warning is not None
    assert "in another order than the model's file states: stay, churn, and not churn, stay" in warning


def test_other_names_than_the_file_states_are_warned_of() -> None:
    warning = check_order(["leaves", "stays"], FILE, ["churn", "stay"], in_graph=True)
    assert warning is not None
    assert "has other names of the classes than the model's file states: leaves, stays, and not churn, stay" in warning


@pytest.mark.parametrize(
    ("names", "stated"), [(["churn", "stay"], ["churn", "stay"]), (["bad", "good"], ["0", "1"]), (["a", "b"], [])]
)
def test_names_that_the_file_does_not_contradict(names: list[str], stated: list[str]) -> None:
    assert check_order(names, FILE, stated, in_graph=True) is None


@pytest.mark.parametrize(
    ("rows", "shape"), [(None, (None, 64)), ("N", ("N", 3, 8, 8)), ("batch", ("batch", 64))], ids=str
)
def test_rows_of_samples_are_no_classes(rows: str | None, shape: tuple[int | str | None, ...]) -> None:
    scores = [ValueSpec("scores", "float32", (rows, 10))]
    with pytest.raises(InputError, match="the number of names is not the number of classes"):
        check_class_names(["a"] * 9, FILE, scores, [ValueSpec("x", "float32", shape)])
    check_class_names(["a"] * 10, FILE, scores, [ValueSpec("x", "float32", shape)])


def test_a_free_number_of_boxes_is_no_number_of_samples() -> None:
    boxes = [ValueSpec("boxes", "float32", ("boxes", 7))]
    check_class_names(["a"] * 80, FILE, boxes, [ValueSpec("x", "float32", (1, 3, 64, 64))])
    boxes = [ValueSpec("boxes", "float32", (None, 7))]
    check_class_names(["a"] * 80, FILE, boxes, [ValueSpec("x", "float32", (None, 3, 64, 64))])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["Unix", "Windows", "old Mac"])
def test_names_of_single_characters(tmp_path: Path, end: str) -> None:
    """PP-OCRv5's list of characters begins with U+3000, and U+2028 and U+0085 end no line of a file."""
    file = tmp_path / "names.txt"
    file.write_bytes(end.join(["\u3000", " a ", "\u2028", "b\x85c", ""]).encode())
    assert read_class_names(file) == ("\u3000", "a", "\u2028", "b\x85c")
