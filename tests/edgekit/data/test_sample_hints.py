import ast
from pathlib import Path

import numpy as np
import pytest

from edgekit.data.samples import open_samples
from edgekit.errors import InputError
from edgekit.model import ValueSpec


@pytest.mark.parametrize(
    ("shape", "order"), [((1, 4, 5, 3), "(0, 3, 1, 2)"), ((4, 5, 3, 1), "(3, 2, 0, 1)"), ((1, 5, 5, 3), None)]
)
def test_axes_in_another_order(tmp_path: Path, shape: tuple[int, ...], order: str | None) -> None:
    """NumPy's own transpose tells whether the order is right."""
    array = np.zeros(shape, np.float32)
    np.savez(tmp_path / "0.npz", x=array)
    with pytest.raises(InputError) as caught:
        list(open_samples(tmp_path, [ValueSpec("x", "float32", (1, 3, 4, 5))]))
    hint = str(caught.value.hint)
    if order is None:
        assert "transpose" not in hint
    else:
        assert hint == f"the model takes the axes in another order: save array.transpose{order}"
        assert array.transpose(ast.literal_eval(order)).shape == (1, 3, 4, 5)


def test_an_array_of_objects(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", x=np.array([[1, None, 3]], object))
    with pytest.raises(InputError) as caught:
        list(open_samples(tmp_path, [ValueSpec("x", "float32", (1, 3))]))
    assert str(caught.value).endswith(
        "\nfound: x: object\nhint: the array holds Python objects: save numbers, numpy.asarray(values, 'float32')"
    )
