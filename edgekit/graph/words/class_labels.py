"""Classes as tensors of numbers, where converters of classic machine learning use maps and texts.

skl2onnx and onnxmltools let a classifier return a sequence of maps from class to probability (``ZipMap``), and its
label as a text if the classes are texts. Runtimes of devices support neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir

from edgekit.errors import InputError
from edgekit.graph.building import NodeBuilder
from edgekit.model import Model, node_name

ML_DOMAIN = "ai.onnx.ml"
_CLASSIFIERS = {
    "LinearClassifier": ("classlabels_ints", "classlabels_strings"),
    "SVMClassifier": ("classlabels_ints", "classlabels_strings"),
    "TreeEnsembleClassifier": ("classlabels_int64s", "classlabels_strings"),
}
"""Operators whose first output is a label, with the attributes that hold the labels as integers and as texts."""

_MOVERS = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
"""Operators that pass on the labels of their first input."""


@dataclass(frozen=True)
class Classes:
    """The classes that outputs refer to."""

    scores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each output that was a sequence of maps: the classes in the order of its columns."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each output that was a text and now is a number from 0: the texts in that order."""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes by index if all outputs agree on them, else an empty tuple."""
        found = {*self.scores.values(), *self.labels.values()}
        return next(iter(found)) if len(found) == 1 else ()

    def warnings(self) -> list[str]:
        """What has changed at the model's outputs."""
        warnings = [
            f"output {name!r} was a sequence of maps (ZipMap) and is a tensor: a row a sample, a column a class"
            for name in self.scores
        ]
        return warnings + [
            f"output {name!r} was a text and is a number: the index of the class among "
            f"{', '.join(map(repr, texts[:5]))}{'' if len(texts) <= 5 else ' …'}"
            for name, texts in self.labels.items()
        ]


def without_maps(proto: onnx.ModelProto, subject: object) -> dict[str, tuple[str, ...]]:
    """Replaces every ZipMap whose maps the model returns by the tensor that it reads, in place.

    Returns:
        The classes of each such output, in the order of its columns.

    Raises:
        InputError: The model still has maps, at an input or inside.
    """
    returned = {value.name: value for value in proto.graph.output}
    classes = {}
    for node in proto.graph.node:
        if (node.domain, node.op_type) != (ML_DOMAIN, "ZipMap") or node.output[0] not in returned:
            continue
        attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        texts = [text.decode() for text in attributes.get("classlabels_strings", ())]
        names = tuple(texts or map(str, attributes.get("classlabels_int64s", ())))
        name = node.output[0]
        node.op_type, node.domain = "Identity", ""
        del node.attribute[:]
        returned[name].type.CopyFrom(
            onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [None, len(names) or None])
        )
        classes[name] = names
    if classes and not any(imported.domain in ("", "ai.onnx") for imported in proto.opset_import):
        proto.opset_import.append(onnx.helper.make_opsetid("", 9))
    values = (*proto.graph.input, *proto.graph.output, *proto.graph.value_info)
    maps = [value.name for value in values if _holds_map(value.type) and value.name not in classes]
    makers = [node.name or node.output[0] for node in proto.graph.node if node.op_type in ("ZipMap", "CastMap")]
    if maps or makers:
        raise InputError(
            "has maps, which are not tensors",
            subject=subject,
            found=", ".join((*maps, *makers)),
            hint="export the model with tensors for inputs (skl2onnx: initial_types), or cut the part off before",
        )
    return classes


def _holds_map(value_type: onnx.TypeProto) -> bool:
    while value_type.WhichOneof("value") == "sequence_type":
        value_type = value_type.sequence_type.elem_type
    return bool(value_type.WhichOneof("value") == "map_type")


def with_labels_as_numbers(model: Model) -> tuple[Model, dict[str, tuple[str, ...]]]:
    """Returns the model with text labels replaced by the text's index if the graph contains the list of texts.

    Returns:
        The model, and the texts by the name of the output. The given model is not changed.
    """
    if not any(value.dtype == ir.DataType.STRING for value in model.graph.outputs):
        return model, {}
    copy = model.graph_model.clone()
    labels = {}
    for output in copy.graph.outputs:
        chain = list(_back_to_maker(output)) if output.dtype == ir.DataType.STRING else []
        texts = _tell_by_number(chain, copy.graph, model.opset) if chain else None
        if texts is not None and output.name:
            labels[output.name] = texts
    return (model.with_graph(copy), labels) if labels else (model, {})


def with_labels_as_texts(model: Model, labels: Mapping[str, tuple[str, ...]]) -> Model:
    """Returns the model with labels as texts again, for comparison with :func:`with_labels_as_numbers`."""
    copy = model.graph_model.clone()
    for position, output in enumerate(copy.graph.outputs):
        texts = labels.get(output.name or "")
        if texts is None:
            continue
        name = output.name
        output.name = f"{name}/number"
        table = _texts(copy.graph, f"{name}/texts", texts)
        looked_up = ir.node("Gather", [table, output], {"axis": 0}, name=f"{name}/text")
        text = looked_up.outputs[0]
        text.name, text.shape, text.dtype = name, output.shape, ir.DataType.STRING
        copy.graph.append(looked_up)
        copy.graph.outputs[position] = text
    return model.with_graph(copy)


def class_numbers(model: Model) -> dict[str, tuple[int, ...]]:
    """Returns, by output, the numbers that outputs use for the classes, in the classes' order.

    Outputs that number the classes from 0 are omitted, and so are outputs whose numbers the graph does not contain.
    """
    found = {}
    for output in model.graph.outputs:
        numbers = _numbers_from_graph(output)
        if numbers != tuple(range(len(numbers))) and output.name and len(set(numbers)) == len(numbers):
            found[output.name] = numbers
    return found


def _numbers_from_graph(value: ir.Value) -> tuple[int, ...]:
    maker = value.producer()
    while maker is not None and not maker.domain and maker.op_type in _MOVERS and maker.inputs[0] is not None:
        value = maker.inputs[0]
        maker = value.producer()
    if maker is None:
        return ()
    if maker.domain == ML_DOMAIN and maker.op_type in _CLASSIFIERS and value is maker.outputs[0]:
        return tuple(maker.attributes.get_ints(_CLASSIFIERS[maker.op_type][0], ()))
    if maker.op_type in ("ArrayFeatureExtractor", "Gather") and maker.inputs[0] is not None:
        tensor = ir.convenience.get_const_tensor(maker.inputs[0])
        if tensor is not None and tensor.dtype.is_integer() and tensor.size == max(tensor.shape.numpy(), default=0):
            return tuple(int(number) for number in tensor.numpy().ravel())
    return ()


def _back_to_maker(value: ir.Value) -> Iterator[ir.Value]:
    """Yields the value and those it passes texts on from, back to the one that an operator computes.

    Yields nothing if anything else reads one of these values.
    """
    chain = [value]
    while True:
        producer = chain[-1].producer()
        uses = len(chain[-1].uses()) + chain[-1].is_graph_output()
        if producer is None or uses != 1:
            return
        if producer.domain or producer.op_type not in _MOVERS or producer.inputs[0] is None:
            break
        chain.append(producer.inputs[0])
    yield from chain


def _tell_by_number(chain: list[ir.Value], graph: ir.Graph, opset: int) -> tuple[str, ...] | None:
    """Turns the last of the values, and all that depend on it, into numbers; returns the texts, or None."""
    maker = chain[-1].producer()
    assert maker is not None
    texts = _numbered(maker, graph, opset)
    if texts is None:
        return None
    for value in chain:
        value.type = ir.TensorType(ir.DataType.INT64)  # not its dtype: clones share their types
        producer = value.producer()
        if producer is not None and producer.op_type == "Cast":
            producer.attributes.add(ir.AttrInt64("to", int(ir.DataType.INT64)))
    return texts


def _numbered(maker: ir.Node, graph: ir.Graph, opset: int) -> tuple[str, ...] | None:
    """Makes a node that returns texts return their indices; returns the texts, or None for unknown operators."""
    attributes = maker.attributes
    if maker.domain == ML_DOMAIN and maker.op_type in _CLASSIFIERS:
        ints, strings = _CLASSIFIERS[maker.op_type]
        texts = tuple(attributes.get_strings(strings, ()))
        if not texts:
            return None
        del attributes[strings]
        attributes.add(ir.AttrInt64s(ints, list(range(len(texts)))))
        return texts
    if maker.op_type in ("ArrayFeatureExtractor", "Gather") and maker.inputs[0] is not None:
        tensor = ir.convenience.get_const_tensor(maker.inputs[0])
        if tensor is None or tensor.dtype != ir.DataType.STRING:
            return None
        stored = tensor.numpy()
        texts = tuple(text.decode() if isinstance(text, bytes) else str(text) for text in stored.ravel())
        if stored.size != max(stored.shape, default=0):
            return None
        numbers = np.arange(len(texts)).reshape(stored.shape)
        maker.replace_input_with(0, _constant(graph, f"{maker.inputs[0].name}/numbers", ir.tensor(numbers)))
        return texts
    if maker.domain == ML_DOMAIN and maker.op_type == "LabelEncoder" and "classes_strings" in attributes:
        return _numbered_by_place(maker, graph, opset)
    if maker.domain == ML_DOMAIN and maker.op_type == "LabelEncoder" and "values_strings" in attributes:
        texts = tuple(dict.fromkeys((*attributes.get_strings("values_strings", ()), _default(attributes))))
        places = [texts.index(text) for text in attributes.get_strings("values_strings", ())]
        default = texts.index(_default(attributes))
        del attributes["values_strings"]
        attributes.add(ir.AttrInt64s("values_int64s", places))
        attributes.add(ir.AttrInt64("default_int64", default))
        return texts
    return None


def _numbered_by_place(maker: ir.Node, graph: ir.Graph, opset: int) -> tuple[str, ...] | None:
    """Makes a LabelEncoder of version 1 return the index it reads, and one index of the default for all others."""
    places = maker.inputs[0]
    texts = tuple(maker.attributes.get_strings("classes_strings", ()))
    if places is None or places.dtype == ir.DataType.STRING or len(set(texts)) != len(texts):
        return None
    every = tuple(dict.fromkeys((*texts, _default(maker.attributes))))
    build = NodeBuilder(opset, f"{node_name(maker)}/number")
    inside = build("And", build("Less", np.int64(-1), places), build("Less", places, np.int64(len(texts))))
    number = build("Where", inside, places, np.int64(every.index(_default(maker.attributes))))
    for constant in build.initializers:
        graph.register_initializer(constant)
    graph.insert_before(maker, build.nodes)
    maker.op_type, maker.domain = "Identity", ""
    maker.attributes.clear()
    maker.replace_input_with(0, number)
    return every


def _default(attributes: Mapping[str, ir.Attr]) -> str:
    attribute = attributes.get("default_string")
    return "_Unused" if attribute is None else attribute.as_string()


def _constant(graph: ir.Graph, name: str, tensor: ir.TensorProtocol) -> ir.Value:
    value = ir.Value(
        name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
    )
    graph.register_initializer(value)
    return value


def _texts(graph: ir.Graph, name: str, texts: tuple[str, ...]) -> ir.Value:
    return _constant(
        graph, name, ir.StringTensor([text.encode() for text in texts], shape=ir.Shape([len(texts)]), name=name)
    )
