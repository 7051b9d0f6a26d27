"""Takes one of two branches that cannot both be built: for devices of fixed shapes, or if one draws random numbers.

optimum merges a decoder's first step and its later steps into one If, whose condition is an input of the model.
TensorFlow 1 has dropout in a branch whose condition is an input that says whether the model is being trained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.data.npz import read_npz
from edgekit.data.samples import sample_files
from edgekit.errors import InputError, RequirementError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError
from edgekit.graph.constant_inputs import with_constant_inputs
from edgekit.graph.sizes.shapes import fold_shapes
from edgekit.model import Model, node_name
from edgekit.rewrites.randomness import draws
from edgekit.stages import Stage, StageResult
from edgekit.target import Profile, Target

_HANDS_ON = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
"""Operators that pass on a condition unchanged."""
_BRANCHES = {True: "then_branch", False: "else_branch"}


@dataclass(frozen=True)
class Fork:
    """An If whose condition is an input, and whose branches have different shapes, or one draws random numbers."""

    node: ir.Node
    input: ir.Value
    """The model's input that is the condition, of one element."""

    @property
    def drawing(self) -> bool | None:
        """The condition of the branch that draws random numbers if the other draws none; None if both or neither do."""
        yes, no = (_draws(self.node.attributes[name].as_graph()) for name in _BRANCHES.values())
        return None if yes == no else yes

    def reads(self, condition: bool) -> set[ir.Value]:
        """The model's inputs that a branch reads."""
        branch = self.node.attributes[_BRANCHES[condition]].as_graph()
        inner = {value for node in branch.all_nodes() for value in node.inputs if value is not None}
        return {value for value in (*inner, *branch.outputs) if value in _graph_inputs(self.node)}

    @property
    def choice(self) -> bool:
        """The condition of the branch to take: the one that draws no random numbers, if the other does.

        Otherwise it is the branch that reads more inputs, or, if an input of the model is empty, fewer inputs.
        """
        if self.drawing is not None:
            return not self.drawing
        yes, no = (len(self.reads(condition)) for condition in (True, False))
        if any(_element_count(value) == 0 for value in _graph_inputs(self.node)):
            return yes < no
        return yes >= no


def needs_branch(model: Model, profiles: Iterable[tuple[Target, Profile]]) -> bool:
    """Whether a branch has to be taken for one of the devices."""
    found = list(forks(model))
    if any(fork.drawing is not None for fork in found):
        return True
    return bool(found) and not all(target.takes_differing_branches(profile) for target, profile in profiles)


def forks(model: Model) -> Iterator[Fork]:
    """The nodes at which an input of the model chooses between branches that cannot both be built.

    Args:
        model: The model, its shapes fixed and inferred.
    """
    for node in model.graph:
        if node.op_type == "If" and not node.domain:
            source = _source(node.inputs[0])
            if source is None or source not in model.graph.inputs or _element_count(source) != 1:
                continue
            fork = Fork(node, source)
            if _differ(node) or fork.drawing is not None:
                yield fork


class TakeBranch(Stage[Model]):
    """Replaces an If by one of its branches, if an input chooses between two that cannot both be built.

    The branches give different shapes, or one of them draws random numbers, which no two runtimes draw alike. The input
    is left out, and so are other inputs that nothing reads any more, and outputs without elements. The branch that
    draws no random numbers is taken, else the one that reads more of the inputs. If an input has no elements, the one
    that reads fewer is taken: an empty past asks for the branch without a past.

    Args:
        choices: The conditions to take instead, by the input's name; see :func:`sampled_choices`.
    """

    name = "take branch"

    def __init__(self, choices: Mapping[str, bool] | None = None) -> None:
        self._choices = choices or {}

    def run(self, given: Model) -> StageResult:
        """Takes the branches.

        Raises:
            RequirementError: The model with the branch alone does not compute what it computed with that condition.
        """
        fixed: dict[str, bool] = {}
        warnings = []
        model = given
        while found := next(forks(model), None):
            name = str(found.input.name)
            choice = fixed[name] = self._choices.get(name, found.choice)
            warnings.append(_warning(found, choice, asked=name in self._choices))
            model = _with_constant(model, name, choice)
        kept = {spec.name for spec in (*model.inputs, *model.outputs)}
        left_out = [spec.name for spec in (*given.inputs, *given.outputs) if spec.name not in kept]
        record = {"inputs": fixed, "left_out": left_out, "warnings": warnings}
        return StageResult(model, record)

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        left_out = set(result.record["left_out"])
        expected = [spec.name for spec in given.outputs if spec.name not in left_out]
        if not expected or [spec.name for spec in result.model.outputs] != expected:
            raise self.broken("the outputs have other names")
        if any(forks(result.model)):
            raise self.broken("branches that cannot both be built are left")


def sampled_choices(model: Model, *folders: Path | None) -> dict[str, bool]:
    """The conditions that samples hold for the inputs that choose between branches, by the input's name.

    Args:
        model: The model, its shapes fixed and inferred.
        folders: Folders of samples in ``.npz`` files; None and other files are ignored.

    Raises:
        InputError: The samples ask for both branches.
    """
    files = [file for folder in folders if folder is not None for file in sample_files(folder)]
    found = {str(fork.input.name): fork for fork in forks(model)}
    counts = {name: Counter[bool]() for name in found}
    for file in files:
        arrays = read_npz(file, model.nan_inputs) if counts and file.suffix.casefold() == ".npz" else {}
        for name in counts.keys() & arrays.keys():
            counts[name][bool(np.any(arrays[name]))] += 1
    for name, count in counts.items():
        if len(count) > 1:
            raise InputError(
                f"the samples take both branches, {_why_not_both(found[name])}",
                subject=f"input {name!r}",
                expected="one value in all samples",
                found=f"true in {count[True]} of {count.total()} samples",
                hint="keep the samples of each branch in a folder of their own, and package a bundle for each",
            )
    return {name: True in count for name, count in counts.items() if count}


def _graph_inputs(node: ir.Node) -> list[ir.Value]:
    graph = node.graph
    return list(graph.inputs) if isinstance(graph, ir.Graph) else []


def _draws(branch: ir.Graph) -> bool:
    return any(draws(node) for node in branch.all_nodes())


def _why_not_both(fork: Fork) -> str:
    if fork.drawing is not None:
        return f"and the one for {str(fork.drawing).lower()} draws random numbers, which differ between runtimes"
    return "which give different shapes, and the device holds fixed ones"


def _warning(fork: Fork, choice: bool, *, asked: bool) -> str:
    name = fork.input.name
    there, other = str(choice).lower(), str(not choice).lower()
    only = sorted(str(value.name) for value in fork.reads(choice) - fork.reads(not choice))
    how = f"; for the branch for {other}, package with {only[0]!r} empty" if only and not asked else ""
    there += ", as in the samples" if asked else ""
    if fork.drawing is not None:
        which = "it" if fork.drawing == choice else "the other one"
        return (
            f"a branch of If {node_name(fork.node)!r} draws random numbers, which differ between runtimes: the "
            f"bundle is the branch for {name} = {there}, and {name!r} is left out; {which} draws"
        )
    return (
        f"the branches of If {node_name(fork.node)!r} give different shapes, and the device holds fixed ones: "
        f"the bundle is the branch for {name} = {there}, and {name!r} is left out{how}"
    )


def _with_constant(model: Model, name: str, condition: bool) -> Model:
    """The model with an input fixed, the branch in place of the If, and without inputs that nothing reads any more."""
    (spec,) = (spec for spec in model.inputs if spec.name == name)
    shape = [size for size in spec.shape or () if isinstance(size, int)]  # all of them: it has one element
    constant = with_constant_inputs(model, {name: np.full(shape, condition)})
    try:
        before = Equivalence(constant)
    except NotRunnableError as error:
        raise RequirementError(f"cannot be executed with {name} = {str(condition).lower()}: {error}") from error
    folded = fold_shapes(constant)
    difference = before.difference(folded)
    if difference is not None:
        raise RequirementError(f"does not compute the same with {name} as a constant: {difference}")
    return _without_idle(folded, model)


def _without_idle(model: Model, before: Model) -> Model:
    """The model without outputs that have no elements, and without inputs that nothing reads any more."""
    read_before = {spec.name for spec, value in zip(before.inputs, before.graph.inputs, strict=True) if _is_read(value)}
    sized_before = {value.name for value in before.graph.outputs if _element_count(value) != 0}
    copy = model.graph_model.clone()
    for value in list(copy.graph.outputs):
        if value.name in sized_before and _element_count(value) == 0:
            copy.graph.outputs.remove(value)
    RemoveUnusedNodesPass()(copy)
    for value in list(copy.graph.inputs):
        if not _is_read(value) and (value.name in read_before or _element_count(value) == 0):
            copy.graph.inputs.remove(value)
    return model.with_graph(copy)


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _differ(node: ir.Node) -> bool:
    """Whether the outputs of the two branches differ in a shape that is known in both."""
    yes, no = (node.attributes[name].as_graph().outputs for name in _BRANCHES.values())
    return any(
        one.shape is not None
        and other.shape is not None
        and one.shape.is_static()
        and other.shape.is_static()
        and one.shape != other.shape
        for one, other in zip(yes, no, strict=True)
    )


def _source(value: ir.Value | None) -> ir.Value | None:
    """The value that a condition comes from, before operators that pass it on unchanged."""
    while value is not None:
        producer = value.producer()
        if producer is None or producer.domain or producer.op_type not in _HANDS_ON:
            return value
        value = producer.inputs[0]
    return None


def _element_count(value: ir.Value) -> int | None:
    shape = value.shape
    return None if shape is None or not shape.is_static() else int(np.prod(shape.numpy(), dtype=np.int64))
