"""The first stage: from a file to a model that the other stages can work with."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveInitializersFromInputsPass

from edgekit.data.missing_values import missing_value_inputs
from edgekit.data.stated import class_names
from edgekit.errors import InputError, RequirementError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.locales import name_known_locales
from edgekit.execution.missing_kernels import in_types_of_kernels
from edgekit.execution.redefined_operators import redefined_operators, redefining_copy
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.widened import in_executable_types
from edgekit.graph.input_notes import read_notes
from edgekit.graph.long_lists import put_back, take_long_lists
from edgekit.graph.nodes import held_tensor
from edgekit.graph.reading.attention_masks import give_each_query_a_mask
from edgekit.graph.reading.decided_branches import take_decided_branches
from edgekit.graph.reading.dilated_padding import write_out_dilated_padding
from edgekit.graph.reading.inlining import inline_functions
from edgekit.graph.reading.ir_version import INITIALIZERS_ALONE, mark_loadable, newest_ir_version
from edgekit.graph.reading.lost_constants import warn_of_lost_constants
from edgekit.graph.reading.message import checked_and_mended
from edgekit.graph.reading.negative_axes import with_positive_axes
from edgekit.graph.reading.onnx_file import (
    check_in_memory,
    check_ir_version,
    check_rules,
    external_files,
    read_proto,
    sha256,
)
from edgekit.graph.reading.pooled_axes import pool_fewer_axes
from edgekit.graph.reading.scalar_operands import make_operands_scalars
from edgekit.graph.reading.unbatched_pools import with_batches_for_pools
from edgekit.graph.reading.vetting import unreadable_as_input_error
from edgekit.graph.sequence_outputs import warnings_of, without_sequences
from edgekit.graph.sizes.branch_sizes import forget_lone_names
from edgekit.graph.sizes.loop_states import forget_first_sizes
from edgekit.graph.sizes.nameless import forget_nameless_sizes
from edgekit.graph.sizes.weight_sizes import tell_sizes_by_weights
from edgekit.graph.words.class_labels import (
    Classes,
    class_numbers,
    with_labels_as_numbers,
    with_labels_as_texts,
    without_maps,
)
from edgekit.graph.words.integer_texts import with_integers_looked_up
from edgekit.model import Model, name_nodes, name_values, node_name
from edgekit.rewrites.adaptation import in_known_opset
from edgekit.rewrites.application import OPSET_OF_PURE_MODELS
from edgekit.rewrites.ml.norms import with_signed_norms
from edgekit.rewrites.opset import OLDEST_OPSET, raised_to_operators
from edgekit.stages import Stage, StageResult

SMALL_TENSOR = 4096
"""Most bytes of an initializer in another file that is loaded into the model: shapes, axes and scales are smaller."""

_WEIGHTED = {"Conv", "ConvTranspose", "ConvInteger", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "BatchNormalization"}
"""Operators whose constant inputs are learned numbers; other operators may need infinities, for attention masks say."""
_UNKNOWN_OPERATOR = re.compile(r"No Op registered for (?P<operator>\S+) with domain_version of (?P<version>\d+)")
_FOLLOWS_FROM_ANOTHER = "expected to have type but instead is null"
"""The end of what ONNX's inference says of each node behind one whose type it does not find."""
_CHOOSES = "Where"
"""The operator that chooses by a condition. A number that is not chosen may be NaN: a variance of nothing, say."""
_MOVES = {"Cast", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that a number may pass on the way to :data:`_CHOOSES`: ``torch.full_like`` expands it."""
_ASKS_FOR_NAN = "IsNaN"


@dataclass(frozen=True)
class _File:
    """A file as it was read, and what was mended in its message."""

    path: Path
    proto: onnx.ModelProto
    data_files: Sequence[Path]
    fed: list[str]
    """The names of initializers that the samples feed."""
    mended: Sequence[str]
    """Warnings about what was mended."""
    scores: Mapping[str, tuple[str, ...]]
    """The class names of each output that was a sequence of maps."""
    is_changed: bool

    def record(self) -> dict[str, Any]:
        """The manifest's entries about the file itself."""
        folder = self.path.parent
        return {
            "file": self.path.name,
            "bytes": sum(file.stat().st_size for file in (self.path, *self.data_files)),
            "sha256": sha256(self.path),
            "external_files": [
                {"file": file.relative_to(folder).as_posix(), "sha256": sha256(file)} for file in self.data_files
            ],
            "producer": f"{self.proto.producer_name} {self.proto.producer_version}".strip(),
        }


class Load(Stage[Path]):
    """Reads and checks an ONNX file.

    A classifier's maps and texts become tensors of numbers, and the model gets the names of the classes. An output that
    is a sequence of a fixed number of tensors becomes one output for each tensor. If EdgeKit wrote the file, the model
    gets what the metadata say about inputs. An initializer that is also an input is a constant unless the samples feed
    it.

    Afterwards the model is in operator set 9 or newer and marked with an IR version that ONNX Runtime takes, calls no
    functions of its own, its initializers are no inputs, every node has a name, and dimensions without a fixed size are
    either named or unknown.

    Args:
        fed: The names of the arrays that every sample holds.
    """

    name = "load"

    def __init__(self, fed: Collection[str] = ()) -> None:
        self._fed = fed

    def run(self, given: Path) -> StageResult:
        """Loads the file. Its tensors stay on the disk, mapped, until they are needed.

        Raises:
            InputError: The file is missing, no ONNX model, damaged, or breaks the rules of ONNX.
            RequirementError: The model itself cannot work: it has NaN in its weights, or cannot be upgraded.
        """
        with unreadable_as_input_error(given):
            return self._loaded(given)

    def _read(self, given: Path) -> _File:
        proto = read_proto(given)
        check_ir_version(proto, given)
        found = checked_and_mended(proto, given, self._fed)
        data_files = external_files(proto, given)
        mended = [*found.warnings, *name_known_locales(proto)]
        changed = found.is_changed or len(mended) > len(found.warnings)
        return _File(given, proto, data_files, found.fed, mended, without_maps(proto, given), changed)

    def _loaded(self, given: Path) -> StageResult:
        file = self._read(given)
        model = Model(_graph_model(file.proto, given), source=given)
        mark_loadable(model.graph_model)
        by_weights = tell_sizes_by_weights(model)
        original_opset = model.opset
        model, function_count, warnings = _without_functions(model, file)
        sequences = without_sequences(model.graph, model.opset)
        name_nodes(model.graph_model)
        model = in_known_opset(model)
        model.graph_model.opset_imports.setdefault("", OPSET_OF_PURE_MODELS)  # there is no operator of it yet
        RemoveInitializersFromInputsPass()(model.graph_model)
        model.graph_model.ir_version = max(model.graph_model.ir_version, INITIALIZERS_ALONE)
        pool_fewer_axes(model.graph, model.opset)
        write_out_dilated_padding(model.graph)
        give_each_query_a_mask(model.graph, model.opset)
        for change in _CHANGES:
            change(model.graph_model)
        model = with_signed_norms(with_positive_axes(model))
        model, stale = read_notes(model)
        model, labels = _with_numbers(_with_integers(model))
        classes, numbers = Classes(file.scores, labels), class_numbers(model)
        model = replace(
            model,
            class_names=classes.names or class_names(model.metadata),
            class_numbers=numbers,
            weight_sizes={each.dimension: each.size for each in by_weights if each.dimension is not None},
            nan_inputs=missing_value_inputs(model.graph),
        )
        _check_sizes(model)
        _check_numbers(model)
        record: dict[str, Any] = {
            **file.record(),
            "opset": model.opset,
            "upgraded_from_opset": original_opset if original_opset not in (0, model.opset) else None,
            "inlined_functions": function_count,
            "fed_initializers": file.fed,
            "sizes_by_weights": {f"{each.input}[{each.axis}]": each.size for each in by_weights},
            "metadata": dict(model.metadata),
            "classes": {name: list(names) for name, names in ({**classes.scores, **classes.labels}).items()},
            "class_numbers": {name: list(each) for name, each in numbers.items()},
            "sequences": {name: list(names) for name, names in sequences.items()},
            "warnings": [
                *_fed_initializer_warnings(file.fed),
                *warnings,
                *stale,
                *classes.warnings(),
                *warnings_of(sequences),
            ],
        }
        return StageResult(model, record)

    def ensures(self, given: Path, result: StageResult) -> None:
        """Checks what the class promises."""
        model = result.model
        if model.graph_model.functions:
            raise self.broken("functions are left")
        if model.opset < OLDEST_OPSET:
            raise self.broken(f"the operator set is {model.opset}")
        if model.graph_model.ir_version > newest_ir_version():
            raise self.broken(f"the IR version is {model.graph_model.ir_version}")
        if any(value.is_initializer() for value in model.graph.inputs):
            raise self.broken("an initializer is an input")
        if model.graph_model.ir_version < INITIALIZERS_ALONE:
            raise self.broken(f"the IR version is {model.graph_model.ir_version}, in which initializers are inputs")
        if any(not node.name for node in model.graph.all_nodes()):
            raise self.broken("a node has no name")


def _without_functions(model: Model, file: _File) -> tuple[Model, int, list[str]]:
    """Raises the operator set where that is needed, checks the model, and inlines its functions.

    Returns:
        The model, the number of its functions, and warnings.
    """
    raised = raised_to_operators(model)
    function_count = len(raised.graph_model.functions)
    raised, widened = in_executable_types(in_types_of_kernels(raised))
    warnings = [*file.mended, *warn_of_lost_constants(file.proto), *([widened] if widened else [])]
    # ONNX's checker reads no shapes from other files
    as_read = raised is model and not file.is_changed and not file.data_files
    try:
        warnings += _check(file.path, raised, as_read=as_read)
    except InputError:
        raised, pools = with_batches_for_pools(raised)
        if not pools:
            raise
        warnings += [f"pools of tensors without a batch, which ONNX does not have, were given one: {pools}"]
        warnings += _check(file.path, raised, as_read=False)
    redefining = redefining_copy(raised)
    inline_functions(raised.graph_model)
    warnings += [] if redefining is None else redefined_operators(redefining, raised)
    return raised, function_count, warnings


def _fed_initializer_warnings(fed: Collection[str]) -> list[str]:
    return [f"the file has a value for {name!r}, but the samples have one too: {name!r} is an input" for name in fed]


def _graph_model(proto: onnx.ModelProto, path: Path) -> ir.Model:
    """The model's graph; large initializers in other files stay there, and get the folder of these files.

    Small ones are loaded: ONNX Runtime reads no shapes or axes from other files. ``proto`` loses its long lists.
    """
    lists = take_long_lists(proto)
    graph_model = ir.from_proto(proto)
    put_back(graph_model, lists)
    for graph in (graph_model.graph, *(function.graph for function in graph_model.functions.values())):
        ir.external_data.set_base_dir(graph, path.absolute().parent)
        for node in graph.all_nodes():
            for attribute in list(node.attributes.values()):
                tensor = attribute.value
                if isinstance(tensor, ir.ExternalTensor):  # few libraries know of external tensors in attributes
                    node.attributes.add(ir.AttrTensor(attribute.name, _inside(tensor)))
    for every in graph_model.graphs():
        for value in every.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes <= SMALL_TENSOR:
                value.const_value = _inside(tensor)
    return graph_model


def _inside(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    return ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)


def _with_integers(model: Model) -> Model:
    """The model without texts that only spell integers; the model as it was if the two are not proven to be equal."""
    changed = with_integers_looked_up(model)
    if changed is model:
        return model
    try:
        return model if Equivalence(model).difference(changed) is not None else changed
    except NotRunnableError:
        return model


def _with_numbers(model: Model) -> tuple[Model, dict[str, tuple[str, ...]]]:
    """The model with numbers in place of labels that are texts, and these texts by output.

    If the two models are not proven to be equal, it returns the model as it was, and no texts.
    """
    changed, labels = with_labels_as_numbers(model)
    if not labels:
        return model, labels
    try:
        difference = Equivalence(model).difference(with_labels_as_texts(changed, labels))
    except NotRunnableError:
        return model, {}
    return (changed, labels) if difference is None else (model, {})


def _check(path: Path, model: Model, *, as_read: bool) -> list[str]:
    """Checks the file, or the model if it was changed, by the rules of ONNX.

    Returns:
        Warnings of flaws that do not keep the model from running.

    Raises:
        InputError: The model breaks the rules, or contradicts itself and does not run.
    """
    try:
        if as_read:
            check_rules(path, model)
        else:
            check_in_memory(model)
    except onnx.shape_inference.InferenceError as error:
        # Some exporters write wrong shapes that nothing uses. Executing the model shows whether they matter.
        text = _causes(error)
        try:
            Reference(model)
        except NotRunnableError as refusal:
            raise InputError(f"contradicts itself: {text}", subject=model.source, found=refusal) from error
        return [f"shapes in the model contradict each other: {text}"]
    except onnx.checker.ValidationError as error:
        if (match := _UNKNOWN_OPERATOR.search(str(error))) is not None:
            raise _unknown_operator(model, **match.groupdict()) from error
        raise InputError(
            f"breaks the rules of ONNX: {' '.join(str(error).split())}",
            subject=model.source,
            hint="export the model again, with a newer exporter if there is one",
        ) from error
    return []


def _causes(error: onnx.shape_inference.InferenceError) -> str:
    """The contradictions in one line, without the nodes that only read what has no type behind a contradiction."""
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    return " ".join(line for line in lines if not line.endswith(_FOLLOWS_FROM_ANOTHER)) or " ".join(lines)


def _unknown_operator(model: Model, operator: str, version: str) -> InputError:
    """The error for an operator that the model's operator set lacks: a newer one, or an exporter's own."""
    versions = [schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.name == operator]
    node = next((node_name(node) for node in model.graph.all_nodes() if node.op_type == operator), operator)
    return InputError(
        f"node {node!r} is a {operator}, which ONNX does not have in operator set {version}",
        subject=model.source,
        hint=f"export the model again with operator set {min(versions)} or newer, which has it"
        if versions
        else f"the exporter found no ONNX operator for {operator}: replace it in the model before you export it",
    )


_CHANGES: Sequence[Callable[[ir.Model], object]] = (
    name_values,
    take_decided_branches,
    name_nodes,
    forget_nameless_sizes,
    forget_first_sizes,
    forget_lone_names,
    make_operands_scalars,
)
"""Changes, in place, to a graph whose functions are inlined."""


def _check_sizes(model: Model) -> None:
    for spec in model.inputs:
        if spec.shape is not None and 0 in spec.shape:
            raise InputError(
                f"input {spec.name!r} has a dimension of size 0: nothing can be fed",
                subject=model.source,
                found=spec,
                hint="export the model with a dynamic dimension there",
            )


def _check_numbers(model: Model) -> None:
    """Refuses NaN in constants, and infinities among learned weights.

    NaN is allowed in constants that a condition may choose, and in tables that the model itself searches for NaN, such
    as an imputer's table of neighbors.
    """
    checked: set[tuple[ir.Value, bool]] = set()
    for node in model.graph.all_nodes():
        if _may_hold_nan(node):
            continue
        weighted = node.op_type in _WEIGHTED
        for value in node.inputs:
            if value is None or (value, weighted) in checked:
                continue
            checked.add((value, weighted))
            tensor = held_tensor(value)
            if tensor is None or not tensor.dtype.is_floating_point() or tensor.size == 0:
                continue
            if any((reader.op_type, reader.domain) == (_ASKS_FOR_NAN, "") for reader, _ in value.uses()):
                continue
            flaw = _flaw(tensor.numpy(), infinity_allowed=not weighted)
            if flaw is not None:
                raise RequirementError(
                    f"the weights of node {node_name(node)!r} ({node.op_type}) are broken",
                    subject=model.source,
                    found=f"{value.name!r}: {flaw}",
                    hint="the training diverged or the export went wrong; check the checkpoint that it was made from",
                )


def _may_hold_nan(node: ir.Node) -> bool:
    """Whether a condition chooses between what the node reads and something else, in this node or after moving it."""
    if node.domain:
        return False
    if node.op_type == _CHOOSES:
        return True
    if node.op_type not in _MOVES:
        return False
    readers = [reader for reader, _ in node.outputs[0].uses()]
    return bool(readers) and not node.outputs[0].is_graph_output() and all(map(_may_hold_nan, readers))


def _flaw(array: np.ndarray, *, infinity_allowed: bool) -> str | None:
    low, high = array.min(), array.max()  # both are NaN if any number is; this makes no copy of a large array
    if np.isnan(low):
        return f"{int(np.isnan(array).sum())} of {array.size} numbers are NaN"
    if not infinity_allowed and not (np.isfinite(low) and np.isfinite(high)):
        return f"{int(np.isinf(array).sum())} of {array.size} numbers are infinite"
    return None
