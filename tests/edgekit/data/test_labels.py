from pathlib import Path

import pytest

from edgekit.data.labels import check_class_names
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
        "names.txt: there are not as many names as classes\n"
        "expected: 4 names, the entries of output 'y0'; 2 names, the entries of output 'y1'\n"
        "found: 3 names\n"
        "hint: give a name a line for every class, in the order of the model's output"
    )
