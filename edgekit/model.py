"""The model that stages hand to each other: a typed graph, its source, and its inputs and outputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from edgekit.features.class_scores import (
    ClassChoice,
    Scores,
    lists_by_topk,
    scores_by_graph,
    superseded_by_softmax,
)
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.features.dimensions import shape_text
from edgekit.features.draws import Draw
from edgekit.features.tokens import Tokens
from edgekit.features.vocabularies import Vocabulary

if TYPE_CHECKING:
    import onnx

    from edgekit.features.dimensions import OpenDims

Arrays = dict[str, np.ndarray]
"""Arrays by name: a model's inputs or outputs."""

Dim = int | str | None
"""A fixed size, the name of a dynamic dimension, or None for a dynamic one without a name."""

PROTOBUF_LIMIT = 2**31 - 1
"""Largest size in bytes of a serialized protobuf message; larger models keep their tensors in a file beside it."""


@dataclass(frozen=True)
class ValueSpec:
    """Name, element type and shape of a model's input or output."""

    name: str
    dtype: str
    """NumPy's name of the element type (``float32``, ``int64``, ``bool``), or ONNX's where NumPy has none."""
    shape: tuple[Dim, ...] | None
    """None if the model does not state even the rank."""
    drawn: Draw | None = None
    """The distribution of the values of an input that takes random numbers; None for other inputs."""
    vocabulary: Vocabulary | None = None
    """The words behind the numbers of an input that takes numbers in place of texts; None for other inputs."""
    tokens: Tokens = ()
    """How a text is split into words, for an input whose last dimension holds the numbers of a text's words."""

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    @property
    def of_texts(self) -> ValueSpec:
        """The input of texts in place of this input of the numbers of their words; without :attr:`tokens`, itself."""
        if not self.tokens:
            return self
        return replace(self, dtype="str", shape=None if self.shape is None else self.shape[:-1], tokens=())

    def takes_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of that shape fits: of the same rank, and equal where a dimension is a number."""
        if self.shape is None:
            return True
        if len(shape) != len(self.shape):
            return False
        return all(
            not isinstance(wanted, int) or wanted == given for given, wanted in zip(shape, self.shape, strict=True)
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {shape_text(self.shape)}"


def states_among(inputs: Sequence[ValueSpec], outputs: Sequence[ValueSpec]) -> frozenset[str]:
    """The outputs with the type and shape of an input other than the first: states that an app feeds back."""
    taken = {(spec.dtype, spec.shape) for spec in inputs[1:] if spec.shape}
    return frozenset(spec.name for spec in outputs if (spec.dtype, spec.shape) in taken)


@dataclass(frozen=True)
class Model:
    """An ONNX model in memory. Stages return a new one; the graph inside belongs to whoever made it.

    Tensors from a file stay memory-mapped until they are needed.
    """

    graph_model: ir.Model
    source: Path | None = None
    """The file that the model was loaded from."""
    open_dims: OpenDims = field(default_factory=dict)
    """The possible sizes of the dimensions that the user asked to keep open, by name."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Inputs that the built model is to keep from one run to the next, each with the output that replaces it."""
    class_names: tuple[str, ...] = ()
    """Names of the classes by index, if the file or the user gives them."""
    class_numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """For each output of class numbers: the numbers of the classes in order, if they are not 0, 1, …"""
    declared: DeclaredOutputs | None = None
    """What the user declares of the outputs."""
    nan_inputs: frozenset[str] = frozenset()
    """Inputs that may hold NaN, which the loaded model treats as a missing value; see
    :mod:`edgekit.data.missing_values`."""
    drawn: Mapping[str, Draw] = field(default_factory=dict)
    """Inputs of random numbers that the loaded model draws itself, each with its distribution; see
    :mod:`edgekit.graph.random_inputs`."""
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    """Inputs that take the numbers of words where the loaded model takes texts, each with its words; see
    :mod:`edgekit.graph.words.inputs`."""
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    """How a text is split into words, for each input that takes the numbers of a text's words."""

    weight_sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes that follow from the weights, by the dimension's name in the file; see
    :mod:`edgekit.graph.sizes.weight_sizes`. No input has the name any more."""
    sample_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of the inputs in one of the samples: a model with free dimensions is first tried at these shapes."""
    sample_values: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Values from one sample for the inputs that determine sizes of inner tensors: the model is tried with them."""
    sample_integers: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Values from one sample for the integer inputs: the model is tried with them if no random integers fit."""

    @property
    def graph(self) -> ir.Graph:
        """The main graph."""
        return self.graph_model.graph

    @property
    def inputs(self) -> tuple[ValueSpec, ...]:
        """The graph's inputs that have no initializer, and so have to be fed."""
        initializers = self.graph.initializers
        specs = (value_spec(value) for value in self.graph.inputs if value.name not in initializers)
        return tuple(
            replace(
                spec,
                drawn=self.drawn.get(spec.name),
                vocabulary=self.vocabularies.get(spec.name),
                tokens=self.tokens.get(spec.name, ()),
            )
            for spec in specs
        )

    @property
    def outputs(self) -> tuple[ValueSpec, ...]:
        """What comes out."""
        return tuple(value_spec(value) for value in self.graph.outputs)

    @property
    def fed_inputs(self) -> tuple[ValueSpec, ...]:
        """The inputs without the states."""
        return tuple(spec for spec in self.inputs if spec.name not in self.states)

    @property
    def returned_outputs(self) -> tuple[ValueSpec, ...]:
        """The outputs without those that replace states."""
        return tuple(spec for spec in self.outputs if spec.name not in self.states.values())

    @property
    def opset(self) -> int:
        """Version of the standard operator set that the model imports; 0 where it imports none."""
        return self.graph_model.opset_imports.get("", 0)

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the file states about itself, by key: ONNX's ``metadata_props``."""
        return self.graph_model.metadata_props

    @property
    def name(self) -> str:
        """What to call the model: its file's stem, else its graph's name."""
        return self.source.stem if self.source is not None else self.graph.name or "model"

    def tensors(self) -> Iterator[ir.TensorProtocol]:
        """Every tensor that the model carries: initializers and constants, in subgraphs too."""
        for graph in self.graph_model.graphs():
            for value in graph.initializers.values():
                if value.const_value is not None:
                    yield value.const_value
            for node in graph:
                for attribute in node.attributes.values():
                    if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                        yield attribute.value  # as_tensor() checks a protocol, method by method

    @property
    def node_count(self) -> int:
        """How many nodes the graph and its subgraphs have."""
        return sum(1 for _ in self.graph.all_nodes())

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors that the model carries."""
        return sum(tensor.nbytes for tensor in self.tensors())

    @property
    def has_half_floats(self) -> bool:
        """Whether half-precision numbers (float16 or bfloat16) occur anywhere in the graph."""
        halves = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
        nodes = self.graph.all_nodes()
        made = (value for node in nodes for value in node.outputs)
        return any(value.dtype in halves for value in (*self.graph.inputs, *self.graph.initializers.values(), *made))

    @property
    def class_choice(self) -> ClassChoice:
        """What is known of the output that gives the class: the user's choice, the number of names, the states."""
        named = None if self.declared is None else self.declared.classes
        states = states_among(self.inputs, self.outputs)
        outputs = {str(value.name): value for value in self.graph.outputs}
        answers = frozenset(name for name, value in outputs.items() if scores_by_graph(value) is Scores.INDEPENDENT)
        in_order, listed = lists_by_topk(self.graph.outputs)
        return ClassChoice(
            named,
            len(self.class_names) or None,
            self.class_numbers,
            states,
            superseded=superseded_by_softmax(self.graph.outputs),
            answers=answers,
            in_order=in_order,
            listed=listed,
        )

    def with_graph(self, graph_model: ir.Model) -> Model:
        """A copy with another graph; the source, open dimensions, states, metadata and other fields stay."""
        for key, text in self.metadata.items():
            graph_model.metadata_props.setdefault(key, text)
        return replace(self, graph_model=graph_model)

    def with_outputs(self, declared: DeclaredOutputs | None) -> Model:
        """A copy with what the user declares of its outputs.

        Raises:
            InputError: The model lacks an output that is named.
        """
        if declared is not None:
            declared.require([spec.name for spec in self.outputs])
        return replace(self, declared=declared)

    def proto(self) -> onnx.ModelProto:
        """The model as one protobuf message, tensors included.

        Raises:
            ValueError: The message would be larger than protobuf allows (2 GiB); use :meth:`save`.
        """
        return ir.to_proto(self._with_tensors_inside())

    def save(self, path: Path) -> None:
        """Write the model to ``path``; tensors go to ``<path>.data`` where one file cannot hold them."""
        if self.weight_bytes > PROTOBUF_LIMIT // 2:
            ir.save(self.graph_model, path, external_data=f"{path.name}.data")
        else:
            ir.save(self._with_tensors_inside(), path, format="protobuf")

    def _with_tensors_inside(self) -> ir.Model:
        """The graph without references to files; the model's own graph if there are no references."""
        if not any(isinstance(tensor, ir.ExternalTensor) for tensor in self.tensors()):
            return self.graph_model
        copy = self.graph_model.clone()
        for graph in copy.graphs():
            for value in graph.initializers.values():
                tensor = value.const_value
                if isinstance(tensor, ir.ExternalTensor):
                    # onnx_ir's load_to_model would close the memory map, which other models may still read
                    value.const_value = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)
        return copy


def value_spec(value: ir.Value) -> ValueSpec:
    """The specification of a graph input or output."""
    shape = None
    if value.shape is not None:
        shape = tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
    return ValueSpec(value.name or "", _type_name(value.type), shape)


def _type_name(value_type: ir.TypeProtocol | None) -> str:
    """The element type of a tensor; a description such as ``seq(float32)`` for other types."""
    match value_type:
        case ir.SequenceType(elem_type=element):
            return f"seq({_type_name(element)})"
        case ir.OptionalType(elem_type=element):
            return f"optional({_type_name(element)})"
        case ir.SparseTensorType(dtype=dtype):
            return f"sparse({dtype_name(dtype)})"
    return dtype_name(None if value_type is None else value_type.dtype)


def dtype_name(dtype: ir.DataType | None) -> str:
    """NumPy's name of an ONNX element type, or ONNX's in lower case if NumPy has none."""
    if dtype is None:
        return "unknown"
    if dtype is ir.DataType.STRING:
        return "str"
    try:
        return np.dtype(dtype.numpy()).name
    except TypeError:
        return dtype.name.lower()


def op_name(node: ir.Node) -> str:
    """A node's operator, with its domain in front unless that is the standard one (``com.microsoft.Gelu``)."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def node_name(node: ir.Node) -> str:
    """What to call a node: its name, else that of its first output, else its operator."""
    return node.name or next((value.name for value in node.outputs if value.name), node.op_type)


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The subgraphs that a node holds: branches, the body of a loop."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS and not attribute.is_ref():
            yield from attribute.as_graphs()


def read_by(node: ir.Node) -> Iterator[ir.Value]:
    """The values of the node's own graph that the node or its subgraphs read."""
    yield from (value for value in node.inputs if value is not None)
    for body in bodies(node):
        inside = list(body.all_nodes())
        read = [value for inner in inside for value in inner.inputs]
        read += [
            value for graph in (body, *(each for inner in inside for each in bodies(inner))) for value in graph.outputs
        ]
        yield from (value for value in read if value is not None and value.graph is node.graph)


def values_of(graph_model: ir.Model) -> Iterator[ir.Value]:
    """Every value of a model: inputs, initializers and nodes' outputs, in subgraphs too."""
    for graph in graph_model.graphs():
        yield from ir.convenience.create_value_mapping(graph).values()


def computed_values(graph_model: ir.Model) -> Iterator[ir.Value]:
    """The main graph's inputs and all nodes' outputs, in subgraphs too: values whose sizes a run can show."""
    yield from graph_model.graph.inputs
    for node in graph_model.graph.all_nodes():
        yield from node.outputs


def name_nodes(graph_model: ir.Model) -> None:
    """Gives every node a unique name, in subgraphs too: that of :func:`node_name`, numbered if it is taken.

    ONNX allows the same name twice, ONNX Runtime does not.
    """
    names = _FreeNames()
    for node in graph_model.graph.all_nodes():
        node.name = names.next(node_name(node))


def name_values(graph_model: ir.Model) -> None:
    """Gives values in branches and loops names that no other graph has.

    ONNX allows the same name in two branches of an If; its shape inference confuses the two values.
    """
    names = _FreeNames()
    for graph in graph_model.graphs():
        values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
        for value in dict.fromkeys(values):
            if value.name:
                free = names.next(value.name)
                if free != value.name:
                    value.name = free


class _FreeNames:
    """Gives out each name once: the requested name, or with the next number appended if it is taken."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, Iterator[int]] = {}

    def next(self, name: str) -> str:
        free = name
        while free in self._taken:
            free = f"{name}_{next(self._numbers.setdefault(name, itertools.count(2)))}"
        self._taken.add(free)
        return free
