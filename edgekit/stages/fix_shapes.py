"""The second stage: dynamic dimensions get the sizes that the device will see, one or several."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.data.battery import KINDS, battery_inputs
from edgekit.data.limits import index_limits
from edgekit.data.samples_of_one_size import NOTHING, LeftOut
from edgekit.errors import InputError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.stated_sizes import drop_untrue_sizes
from edgekit.features.dimensions import as_record, defaults, last, written
from edgekit.graph.random_inputs import draws_numbers, with_random_inputs
from edgekit.graph.simplification.squeezed_axes import with_squeezed_axes
from edgekit.graph.sizes.default_sizes import DefaultSize, SampledSizes, texts_on, with_default_sizes
from edgekit.graph.sizes.shape_request import FixedSizes, ShapeRequest, at_sizes, terms
from edgekit.graph.sizes.shapes import ContradictionError, fold_shapes, infer_shapes
from edgekit.model import Arrays, Dim, Model, ValueSpec
from edgekit.rewrites.infeasible import without_infeasible_branch
from edgekit.stages import Stage, StageResult

_NODE_IN_INFERENCE = re.compile(r"\(op_type:[^,)]*, node name: ([^)]+)\): (?:\[\w+\] )?(.+?)(?= \(op_type:|$)")
"""The first node in the errors of an inference, and what is wrong there; later errors follow from the first."""
_MOST_HINTED = 3
"""Most default sizes that the error for a graph that cannot take the shapes names."""


class FixShapes(Stage[Model]):
    """Fixes the inputs' shapes, infers all others, and folds what the model computes from shapes.

    Afterwards every input has the shape that was asked for, and the model computes on it what it computed before. A
    dimension that was given several sizes keeps its name, and the model knows the sizes.

    Args:
        request: The sizes; an empty request fixes nothing, and still folds what is constant.
        defaults: Whether free dimensions that the request leaves out get the sizes of
            :mod:`edgekit.graph.sizes.default_sizes`.
        sampled: The sizes that samples have, which are defaults too.
        left_out: Samples that do not count because they have other sizes.
    """

    name = "fix shapes"

    def __init__(
        self,
        request: ShapeRequest,
        *,
        defaults: bool = False,
        sampled: SampledSizes | None = None,
        left_out: LeftOut = NOTHING,
    ) -> None:
        self._asked = request
        self._left_out = left_out
        self._defaults = defaults
        self._sampled = sampled

    def run(self, given: Model) -> StageResult:
        """Fixes the shapes.

        Raises:
            InputError: The request does not fit the inputs, or the graph cannot take the shapes; then it says which
                node cannot.
        """
        request, by_default = self._request(given)
        sizes = request.sizes(given.inputs)
        given = replace(given, open_dims=request.open_dims)
        warnings = [*([self._left_out.why] if self._left_out.files else []), *texts_on(by_default)]
        fixed = self._with_inputs_fixed(given, request, sizes, by_default, warnings)
        executed = _executed(fixed)
        misnamed = None if isinstance(executed, NotRunnableError) else _misnamed_output(fixed, executed.outputs)
        if misnamed is not None:
            warnings.append(
                f"shapes inside the model are computed anew, because those in the file are wrong: output {misnamed}"
            )
        if misnamed is not None or not _runs_where(given, fixed):
            fixed = self._worked_out_afresh(given, fixed, by_default, warnings)
            executed = _executed(fixed)
        _require_elements(request, executed)
        if fixed.open_dims and not isinstance(executed, NotRunnableError):
            drop_untrue_sizes(fixed, executed)
        result = _folded(given, fixed, executed, by_default, warnings)
        if misnamed is None:
            result = _with_stated_sizes(result, given, sizes, executed)
        record: dict[str, Any] = {
            "sizes": dict(sizes.by_name),
            "open": {name: as_record(sizes) for name, sizes in result.open_dims.items()},
            "inputs": {spec.name: _plain(spec.shape) for spec in result.inputs},
            "outputs": {spec.name: _plain(spec.shape) for spec in result.outputs},
            "still_dynamic": [
                {"input": spec.name, "axis": axis, "dimension": dim, "fix": flag}
                for spec, axis, dim, flag in dynamic_dimensions(result)
            ],
            "folded_nodes": fixed.node_count - result.node_count,
            "warnings": warnings,
        }
        if self._left_out.files:
            record["samples_left_out"] = len(self._left_out.files)
        if self._defaults:
            record["request"] = request.as_record()
        return StageResult(result, record)

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        request, _ = self._request(given)
        sizes = request.sizes(given.inputs)
        asked = {spec.name: request.shape(spec, sizes) for spec in given.inputs}
        if asked != {spec.name: spec.shape for spec in result.model.inputs}:
            raise self.broken("the inputs have other shapes than were asked for")
        if [spec.name for spec in result.model.outputs] != [spec.name for spec in given.outputs]:
            raise self.broken("the outputs have other names")

    def _request(self, given: Model) -> tuple[ShapeRequest, list[DefaultSize]]:
        """The request completed by default sizes, and these default sizes."""
        asked = self._asked.without_known(given.weight_sizes)
        if not self._defaults:
            return asked, []
        return with_default_sizes(asked, given.inputs, given.metadata, self._sampled)

    def _with_inputs_fixed(
        self,
        given: Model,
        request: ShapeRequest,
        sizes: FixedSizes,
        by_default: Sequence[DefaultSize],
        warnings: list[str],
    ) -> Model:
        """The model with the shapes of inputs put in and all other shapes inferred, not folded yet."""
        asked = {spec.name: request.shape(spec, sizes) for spec in given.inputs}
        overridden = bool(sizes.ambiguous) or any(
            old != new and isinstance(old, int)
            for spec in given.inputs
            for old, new in zip(spec.shape or (), asked[spec.name] or (), strict=False)
        )
        if sizes.ambiguous:
            names = ", ".join(map(repr, sorted(sizes.ambiguous)))
            warnings.append(f"the name {names} stands for several sizes; each input has the shape that is given for it")
        graph_model = given.graph_model.clone()
        for value in graph_model.graph.inputs:
            shape = asked.get(value.name or "")
            value.shape = None if shape is None else ir.Shape(shape)
        for node in graph_model.graph.all_nodes():
            for value in node.outputs:
                if value.shape is not None and not overridden:
                    spec_shape = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
                    value.shape = ir.Shape([None if sizes.follows(dim) else sizes.put_in(dim) for dim in spec_shape])
                else:
                    value.shape = None
        fixed = given.with_graph(graph_model)
        try:
            return infer_shapes(fixed)
        except ContradictionError:
            return self._worked_out_afresh(given, fixed, by_default, warnings)

    def _worked_out_afresh(
        self, given: Model, fixed: Model, by_default: Sequence[DefaultSize], warnings: list[str]
    ) -> Model:
        """The model with all shapes inferred from those of the inputs, without what the file states of inner values."""
        for node in fixed.graph.all_nodes():
            for value in node.outputs:
                value.shape = None
        try:
            return infer_shapes(fixed)
        except ContradictionError as error:
            pruned = without_infeasible_branch(infer_shapes(fixed, strict=False))
            if pruned is not None:
                warnings.append(pruned[1])
                return infer_shapes(pruned[0])
            if not _contradicts_itself(given):
                raise _contradiction(error, fixed, by_default) from error
            warnings.append(f"shapes inside are known only in part: {error}")
            return infer_shapes(fixed, strict=False)


def dynamic_dimensions(model: Model) -> Iterator[tuple[ValueSpec, int, Dim, str]]:
    """The inputs' dimensions that have no known size: input, axis, name, and the flag that would fix it."""
    for spec in model.inputs:
        for axis, dim in enumerate(spec.shape or ()):
            if isinstance(dim, str) and terms(dim) <= model.open_dims.keys():
                continue
            if isinstance(dim, str):
                yield spec, axis, dim, f"--dim {quote(dim)}=SIZE"
            elif dim is None:
                sizes = ",".join(str(other) if isinstance(other, int) else "SIZE" for other in spec.shape or ())
                yield spec, axis, dim, f"--shape {quote(spec.name)}={sizes}"


def _runs_where(given: Model, fixed: Model) -> bool:
    """Whether a model with branches, once its shapes are fixed, still runs on inputs on which it ran, in each branch.

    The file may give a branch's output the dimension names of the other branch: optimum gives the outputs of a
    decoder's first step the names of its later steps. ONNX Runtime then refuses the graph, or the sizes that it finds.
    """
    if not any(node.op_type == "If" for node in fixed.graph) or not all(spec.is_static for spec in fixed.inputs):
        return True
    try:
        before = Reference(given)
        drawn = battery_inputs(fixed.inputs, KINDS[0], index_limits(fixed))
    except (NotRunnableError, InputError):
        return True
    try:
        after = Reference(fixed)
    except NotRunnableError:
        return False
    conditions = [spec.name for spec in fixed.inputs if spec.dtype == "bool"]
    for choice in (True, False):
        feeds = drawn | {name: np.full_like(drawn[name], choice) for name in conditions}
        if not _runs(after, feeds) and _runs(before, feeds):
            return False
    return True


def _executed(fixed: Model) -> Equivalence | NotRunnableError:
    """The model's outputs on trial inputs, with its random numbers as inputs; or why it cannot be executed."""
    try:
        return Equivalence(with_random_inputs(fixed, fold_shapes(fixed))[0] if draws_numbers(fixed) else fixed)
    except NotRunnableError as error:
        return error


def _misnamed_output(fixed: Model, found: Arrays) -> str | None:
    """In words, how an output's shape in a run contradicts the shape that the model states; None if none does.

    Exporters give any free dimension the name that they are told: a seismic picker calls samples of a recording, and
    those of its overlapping windows, ``batch``. Others state the sizes that they traced with, or no dimensions at all.
    ONNX Runtime computes the outputs without regard to these statements.
    """
    for spec in fixed.outputs:
        value = found[spec.name]
        if isinstance(value, np.ndarray) and not spec.takes_shape(value.shape):
            return f"{spec.name!r} has the shape {list(value.shape)}, not {list(spec.shape or ())} as the file says"
    return None


def _require_elements(request: ShapeRequest, executed: Equivalence | NotRunnableError) -> None:
    """Refuses a size of 0 that leaves nothing to compute: every output would be right, whatever the device computes.

    Raises:
        InputError: Every output is an array without elements.
    """
    empty = next((name for name, size in request.dims.items() if size == 0), None)
    if empty is None or isinstance(executed, NotRunnableError):
        return
    if all(isinstance(value, np.ndarray) and value.size == 0 for value in executed.outputs.values()):
        raise InputError(
            "leaves every output without elements",
            subject=f"--dim {empty}=0",
            expected="a whole number from 1; 0 is for an input that may be empty, such as a decoder's past",
        )


def _runs(reference: Reference, feeds: Arrays) -> bool:
    try:
        reference.run(feeds)
    except NotRunnableError:
        return False
    return True


def _folded(
    given: Model,
    fixed: Model,
    before: Equivalence | NotRunnableError,
    by_default: Sequence[DefaultSize],
    warnings: list[str],
) -> Model:
    """The model with its shape computations folded; the model itself if it would then compute something else."""
    if isinstance(before, NotRunnableError):
        if _is_fault_of_the_shapes(before, given, fixed):
            raise _contradiction(before, fixed, by_default) from before
        warnings.append(f"constants were not folded, because the result could not be compared: {before}")
        return fixed
    changed = with_squeezed_axes(fold_shapes(fixed), before.shapes if fixed.open_dims else None)
    difference = before.difference(with_random_inputs(changed)[0])
    if difference is None:
        return changed
    pruned = without_infeasible_branch(changed)
    if pruned is not None and before.difference(with_random_inputs(pruned[0])[0]) is None:
        warnings.append(pruned[1])
        return pruned[0]
    warnings.append(f"constants were not folded, because that would change what the model computes: {difference}")
    return fixed


def _with_stated_sizes(
    result: Model, given: Model, sizes: FixedSizes, executed: Equivalence | NotRunnableError
) -> Model:
    """The model with sizes from expressions in the file, for dimensions of values that inference does not know.

    Exporters write ``h + 1*w + 1`` for the product of ``h + 1`` and ``w + 1``, so inferred sizes take precedence.
    """
    stated = {
        value.name: [sizes.put_in(dim if isinstance(dim, int) else dim.value) for dim in value.shape]
        for node in given.graph.all_nodes()
        for value in node.outputs
        if value.shape is not None
        and any(sizes.follows(dim.value) for dim in value.shape if isinstance(dim, ir.SymbolicDim))
    }
    filled = result.graph_model.clone()
    unknown = False
    for node in filled.graph.all_nodes():
        for value in node.outputs:
            stated_sizes = stated.get(value.name)
            if stated_sizes is None or (
                value.shape is not None and (value.shape.is_static() or len(value.shape) != len(stated_sizes))
            ):
                continue
            known = stated_sizes if value.shape is None else value.shape
            value.shape = ir.Shape(
                stated_size if isinstance(size, ir.SymbolicDim) and size.value is None else size
                for size, stated_size in zip(known, stated_sizes, strict=True)
            )
            unknown = True
    if not unknown:
        return result
    try:
        completed = infer_shapes(result.with_graph(filled))
    except ContradictionError:
        return result
    if not isinstance(executed, NotRunnableError) and _misnamed_output(completed, executed.outputs) is not None:
        return result
    return completed


def _is_fault_of_the_shapes(error: NotRunnableError, given: Model, fixed: Model) -> bool:
    """Whether a node fails because of the shapes, and not because of the runtime, trial sizes or drawn inputs."""
    if error.node is None or any(True for _ in dynamic_dimensions(fixed)):
        return False
    limits = index_limits(fixed)
    if any(spec.dtype == "str" or ("int" in spec.dtype and spec.name not in limits) for spec in fixed.inputs):
        return False
    try:
        Reference(given)
        reference = Reference(fixed)
    except NotRunnableError:
        return False
    specs = [at_sizes(fixed.inputs, sizes(fixed.open_dims)) for sizes in (defaults, last)]
    return not all(any(_runs(reference, battery_inputs(each, kind, limits)) for kind in KINDS) for each in specs)


def _contradicts_itself(model: Model) -> bool:
    try:
        infer_shapes(model)
    except ContradictionError:
        return True
    return False


def _contradiction(
    error: ContradictionError | NotRunnableError, fixed: Model, by_default: Sequence[DefaultSize]
) -> InputError:
    text = error.cause if isinstance(error, NotRunnableError) else str(error)
    match = _NODE_IN_INFERENCE.search(text)
    node = error.node if isinstance(error, NotRunnableError) else match.group(1) if match else None
    return InputError(
        f"cannot take these shapes: {match.group(2) if match else text}",
        subject="the graph" if node is None else f"node {node!r}",
        found="; ".join(
            [*map(str, fixed.inputs), *(f"{name}={written(sizes)}" for name, sizes in fixed.open_dims.items())]
        ),
        hint="; ".join(texts_on(by_default)[:_MOST_HINTED]) or "give the shapes that the model was made for",
    )


def _plain(shape: tuple[Dim, ...] | None) -> list[Dim] | None:
    return None if shape is None else list(shape)
