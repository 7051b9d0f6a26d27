import ast
from pathlib import Path

import numpy as np
import pytest

from edgekit.data.given_values import fitting_array
from edgekit.data.samples import open_samples
from edgekit.errors import InputError
from edgekit.model import ValueSpec


@pytest.mark.parametrize(
    ("shape", "order", "batch"),
    [
        ((1, 4, 5, 3), "(0, 3, 1, 2)", ""),
        ((4, 5, 3, 1), "(3, 2, 0, 1)", ""),
        ((4, 5, 3), "(2, 0, 1)", "[numpy.newaxis]"),
    ],
)
def test_axes_in_another_order(tmp_path: Path, shape: tuple[int, ...], order: str, batch: str) -> None:
    """NumPy's own transpose tells whether the order is right."""
    array, spec = np.zeros(shape, np.float32), ValueSpec("x", "float32", (1, 3, 4, 5))
    np.savez(tmp_path / "0.npz", x=array)
    with pytest.raises(InputError) as caught:
        list(open_samples(tmp_path, [spec]))
    told = "the model takes the axes in another order: "
    assert caught.value.hint == f"{told}save array.transpose{order}{batch}"
    turned = array.transpose(ast.literal_eval(order))
    assert (turned[np.newaxis] if batch else turned).shape == (1, 3, 4, 5)
    with pytest.raises(InputError) as caught:
        fitting_array(array, spec)
    assert caught.value.hint == f"{told}give array.transpose{order}{batch}"


@pytest.mark.parametrize("shape", [(1, 5, 5, 3), (3, 4), (2, 4, 5, 3), (4, 5, 3, 1, 1)])
def test_sizes_that_no_order_of_axes_gives(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "0.npz", x=np.zeros(shape, np.float32))
    with pytest.raises(InputError) as caught:
        list(open_samples(tmp_path, [ValueSpec("x", "float32", (1, 3, 4, 5))]))
    assert "transpose" not in str(caught.value.hint)


def test_an_array_of_objects(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", x=np.array([[1, None, 3]], object))
    with pytest.raises(InputError) as caught:
        list(open_samples(tmp_path, [ValueSpec("x", "float32", (1, 3))]))
    assert str(caught.value).endswith(
        "\nfound: x: object\nhint: the array holds Python objects: save numbers, numpy.asarray(values, 'float32')"
    )
