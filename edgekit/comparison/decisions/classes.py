"""Which output tells a sample's class, and what its numbers are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from edgekit.comparison.decisions.label_accuracy import class_output
from edgekit.data.labels import length_of_vector
from edgekit.errors import InputError
from edgekit.features.class_scores import Levels, Scores, is_decision_by, is_greatest_of, levels_of, scores_of
from edgekit.model import Arrays, Model


@dataclass(frozen=True)
class Classes:
    """What tells the class: the manifest's ``classes``."""

    output: str
    scores: Scores | None
    """What the output's numbers are; None if the output gives a class number."""
    levels: Levels | None = None
    """What integers stand for, whose kind `scores` states; None for floats and for other integers."""
    numbers: tuple[int, ...] = ()
    """The numbers that the output gives for the classes, in their order; empty for scores, and for 0, 1 and so on."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        levels = {} if self.levels is None else asdict(self.levels)
        numbers = {"numbers": list(self.numbers)} if self.numbers else {}
        return {"output": self.output, "scores": self.scores, **levels, **numbers}


def classes_of(model: Model, answers: Sequence[Arrays], embeddings: Collection[str] = ()) -> Classes | None:
    """Returns the output that tells the class of a sample, or None if no output does.

    Beside a label of the model's own, scores tell the class only if the label is that of the greatest score, or if the
    label follows from the scores and these are probabilities.

    Args:
        model: The original.
        answers: Its outputs on a few samples, at least one.
        embeddings: The outputs that are embeddings, and tell no class.
    """
    names = [spec.name for spec in model.returned_outputs]
    choice = replace(model.class_choice, embeddings=frozenset(embeddings), answers=frozenset(), listed=frozenset())
    name = class_output({name: answers[0][name] for name in names}, choice)
    if name is None or (choice.classes is not None and answers[0][name].size not in (1, choice.classes)):
        return None
    values = {str(value.name): value for value in model.graph.outputs}
    if answers[0][name].size == 1 and answers[0][name].dtype.kind != "f":
        number = Classes(name, None, numbers=choice.numbers.get(name, ()))
        beside = class_output({other: answers[0][other] for other in names if other != name}, choice)
        if beside is None:
            return number
        if not is_greatest_of(values[name], values[beside]) and not (
            is_decision_by(values[name], values[beside]) and _has_probabilities(model, name, beside, answers)
        ):
            return number
        name = beside
    given = [answer[name] for answer in answers]
    is_integer = given[0].dtype.kind in "iu"
    return Classes(
        name,
        scores_of(values.get(name), [one for one in given if one.size == given[0].size]),
        levels_of(values[name]) if is_integer and name in values else None,
    )


def _has_probabilities(model: Model, label: str, scores: str, answers: Sequence[Arrays]) -> bool:
    """Whether scores beside a label are probabilities, and the order of their classes is known.

    The order is not known if labels are numbers of the model's own, and classes have no names. Margins between two
    classes are not probabilities, and softmax does not turn them into any.
    """
    if model.class_choice.numbers.get(label) and not model.class_names:
        return False
    given = [answer[scores] for answer in answers]
    if any(one.size != given[0].size for one in given):
        return False
    return scores_of(None, given) is Scores.PROBABILITIES


def require_class_output(model: Model) -> None:
    """Checks that the output that the user names can tell a class.

    Raises:
        InputError: It holds something else than a number for each class, or a class number.
    """
    choice = model.class_choice
    for spec in model.returned_outputs:
        length = length_of_vector(spec)
        if spec.name != choice.output or length is None or choice.classes is None or length in (1, choice.classes):
            continue
        raise InputError(
            "the output does not tell a class",
            subject="[outputs] classes",
            expected=f"{choice.classes} numbers, one for each label",
            found=spec,
            hint="name the output that scores the classes, or give the labels of this one",
        )


def ambiguity(model: Model, *, labelled: bool) -> str | None:
    """Returns a warning if several outputs may tell the class and the user names none of them; None if it is clear.

    Args:
        model: The original, its sizes known.
        labelled: Whether the samples have labels.
    """
    choice = model.class_choice
    if choice.output is not None or not (labelled or choice.classes is not None):
        return None
    lengths = {spec.name: length_of_vector(spec) for spec in model.returned_outputs if spec.dtype.startswith("float")}
    scoring = {name: length for name, length in lengths.items() if length is not None and length > 1}
    fitting = [name for name, length in scoring.items() if length == choice.classes] or (
        list(scoring) if labelled else []
    )
    fitting = [name for name in fitting if name not in choice.states] or fitting
    fitting = [name for name in fitting if name not in choice.superseded] or fitting
    fitting = [name for name in fitting if name not in choice.in_order]
    if len(fitting) < 2:
        return None
    return (
        f"{len(fitting)} outputs may tell the class: {', '.join(map(repr, fitting))}; it is read from the first, "
        f"{fitting[0]!r}; classes = {_quoted(fitting[1])} under [outputs] in edgekit.toml chooses another"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
