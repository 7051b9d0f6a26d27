"""The class as a text: what Vision reports as a classification."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from edgekit.errors import RequestError
from edgekit.features.class_scores import Scores, scores_by_graph
from edgekit_mil.core.mil import Var, ct, mb
from edgekit_mil.core.values import FLOATS, Value
from edgekit_mil.program.interface import Interface

LABEL = "classLabel"
PROBABILITIES = f"{LABEL}_probs"
SCORES = f"{LABEL}_scores"
NAMES = (LABEL, PROBABILITIES, SCORES)


def probabilities(outputs: Sequence[ir.Value], results: Sequence[Value | None], interface: Interface) -> Var:
    """The probabilities of the classes, shape (1, number of classes).

    They are the model's output itself if that comes from a Softmax or Sigmoid, else the softmax of the output; see
    :func:`edgekit.features.class_scores.scores_by_graph`.

    Raises:
        edgekit.errors.RequestError: The number of outputs with exactly one number per class is not one, and the user
            names none of them.
    """
    classes = interface.classes
    fitting = [
        (output, result)
        for output, result in zip(outputs, results, strict=True)
        if result is not None
        and result.dtype in FLOATS
        and result.is_static
        and result.rank
        and result.static_shape[-1] == math.prod(result.static_shape) == len(classes)
    ]
    if interface.class_output is not None:
        fitting = [(output, result) for output, result in fitting if output.name == interface.class_output]
    if len(fitting) != 1:
        raise RequestError(
            "the model cannot be made a classifier",
            subject="classifier",
            expected=f"one output with {len(classes)} numbers, as many as there are labels",
            found="; ".join(f"{output.name} {list(output.shape or ())}" for output in outputs),
            hint=f'classes = "{fitting[0][0].name}" under [outputs] in edgekit.toml chooses one' if fitting else None,
        )
    output, result = fitting[0]
    scores = mb.reshape(x=result.var, shape=[1, len(classes)])
    if scores_by_graph(output) in (Scores.PROBABILITIES, Scores.INDEPENDENT):
        return mb.identity(x=scores, name=SCORES)
    return mb.softmax(x=scores, axis=-1, name=SCORES)


def classifier_config(classes: Sequence[str]) -> object:
    """Returns the settings by which coremltools makes a class label and a probability per class of the scores."""
    return ct.ClassifierConfig(list(classes), LABEL, SCORES)
