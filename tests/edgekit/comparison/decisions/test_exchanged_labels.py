"""Labels in another order than the model's classes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import edgekit
from edgekit.comparison.decisions.exchanged_labels import exchanged_labels

RIGHT = {(0, 0): 8, (3, 3): 8}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (RIGHT, []),
        ({**RIGHT, (1, 2): 8, (2, 1): 8}, [1, 2]),
        ({**RIGHT, (1, 2): 8, (2, 1): 7, (2, 2): 1}, [1, 2]),
        ({(0, 1): 3, (1, 2): 3, (2, 0): 3}, [0, 1, 2]),
        ({**RIGHT, (1, 2): 8, (2, 2): 8}, []),  # a model that is bad at class 1
        ({**RIGHT, (1, 2): 5, (1, 1): 3, (2, 1): 8}, []),  # only 63% of class 1 are confused
        ({**RIGHT, (1, 2): 2, (2, 1): 2}, []),  # too few
        ({**RIGHT, (1, None): 8, (2, 1): 8}, []),
        ({(0, 1): 3, (1, 2): 3, (2, 1): 3}, [1, 2]),  # class 0 is answered as one of the two exchanged classes
    ],
)
def test_labels_that_are_answered_as_each_other(answers: dict[tuple[int, int | None], int], told: list[int]) -> None:
    assert [each.label for each in exchanged_labels(answers)] == told


def test_the_words_of_folders_in_the_order_of_the_alphabet(tmp_path) -> None:
    """The model has ja, nein, links, rechts; folders are numbered ja 0, links 1, nein 2, rechts 3."""
    words = ["ja", "nein", "links", "rechts"]
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> f (float[1, 4] x) => (float[1, 4] y) { y = Neg (x) }'
    )
    onnx.save(model, tmp_path / "model.onnx")
    random = np.random.default_rng(0)
    for number, word in enumerate(words):
        (tmp_path / "data" / word).mkdir(parents=True)
        for sample in range(4):
            x = random.uniform(0, 1, (1, 4)).astype(np.float32)
            x[0, number] = -1
            np.savez(tmp_path / "data" / word / f"{sample}.npz", x=x)
    made = edgekit.package(
        tmp_path / "model.onnx", "onnxruntime", tmp_path / "b", data=tmp_path / "data", quantize="none"
    )
    told = next(stage for stage in made.manifest["stages"] if stage["name"] == "verify")["record"]["warnings"]
    assert told[0] == (
        "labels look exchanged: the original answers 4 of 4 samples of class 1 as class 2, 4 of 4 samples of class 2 "
        "as class 1; check the order of the classes; sub-folders were numbered by name, ja 0, links 1, nein 2, rechts "
        "3: --labels FILE gives the model's order"
    )
