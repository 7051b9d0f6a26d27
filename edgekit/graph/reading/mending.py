"""Repairs violations of ONNX's rules that leave no doubt about what is meant: ONNX Runtime runs most such files."""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableSequence
from typing import Any

import onnx

from edgekit.graph.reading.flags import set_flags
from edgekit.graph.reading.ir_version import INITIALIZERS_ALONE
from edgekit.graph.reading.node_order import read_names, sort_nodes
from edgekit.graph.reading.onnx_file import STANDARD_DOMAINS
from edgekit.graph.reading.subgraphs import graphs_of, nodes_inside, written_nodes

GRAPH_NAME = "graph"
MICROSOFT = "com.microsoft"
_GREATEST_VERSION = 2**31 - 1
"""The greatest version of operators that the onnx package takes."""


def name_standard_domain(proto: onnx.ModelProto) -> bool:
    """Writes the domain ``ai.onnx`` as the empty name, which means the same; ONNX's checker only knows the empty name.

    If there are several versions, the last one counts, as in ONNX Runtime.

    Returns:
        Whether there was such a domain, or more than one version.
    """
    changed = False
    for imports in (proto.opset_import, *(function.opset_import for function in proto.functions)):
        standard = [opset for opset in imports if opset.domain in STANDARD_DOMAINS]
        for opset in standard[:-1]:
            imports.remove(opset)
        changed |= len(standard) > 1 or any(opset.domain for opset in standard)
        for opset in standard[-1:]:
            opset.domain = ""
    for node in nodes_inside(written_nodes(proto)):
        if node.domain in STANDARD_DOMAINS:
            node.domain = ""
    return changed


def drop_shadowed_functions(proto: onnx.ModelProto) -> list[str]:
    """Drops functions of the model that bear the name of an operator of ONNX in the version that the model uses.

    ONNX leaves open whether the function or the operator is meant; ONNX Runtime executes the operator.

    Returns:
        Descriptions of what was dropped.
    """
    versions = {opset.domain: opset.version for opset in proto.opset_import}
    shadowed = [
        function
        for function in proto.functions
        if 0 < versions.get(function.domain, 0) <= _GREATEST_VERSION
        and onnx.defs.has(function.name, versions[function.domain], function.domain)
    ]
    for function in shadowed:
        proto.functions.remove(function)
    return [
        f"the model's function {function.name!r} has the name of an operator of ONNX, which is executed in its place"
        for function in shadowed
    ]


def mend(proto: onnx.ModelProto) -> list[str]:
    """Names the graph, sorts its nodes, drops doc strings that are no text and invalid unused tensors, in place.

    Axes that a Transpose counts from the end are counted from the start, which alone the standard allows. Other numbers
    than 0 and 1 where only these are allowed count as they do for ONNX Runtime.

    A file of an old version with initializers that are no inputs gets the first version that allows them. Outputs
    without a type get the one that ONNX's inference finds; entries of other values without a type are dropped. An
    output that is listed several times is kept once, because outputs are identified by their names. ONNX Runtime's
    operators are imported where they are used without that.

    Returns:
        Descriptions of the repairs.
    """
    changes = []
    if not proto.graph.name:
        proto.graph.name = GRAPH_NAME
        changes.append(f"the graph had no name: it is called {GRAPH_NAME!r}")
    if lone := _lone_initializers(proto):
        proto.ir_version = INITIALIZERS_ALONE
        changes.append(
            f"{lone} of its initializers are not inputs, which its IR version asks for: it is read as a newer one"
        )
    if sort_nodes(proto.graph):
        changes.append("nodes stood before what they read: they were put into the order in which they are computed")
    changes += _imported(proto)
    changes += _listed_once(proto.graph)
    changes += set_flags(proto)
    changes += _typed(proto)
    changes += _stated(proto.graph)
    changes += _permuted(proto)
    strange = [message for message in _documented(proto) if not _is_text(message)]
    for message in strange:
        message.ClearField("doc_string")
    if strange:
        changes.append(f"{len(strange)} doc strings that are not text were dropped")
    return changes + [
        f"initializer {name!r} is used by nothing and has another size than it says: it was dropped"
        for name in _odd_unused(proto.graph)
    ]


def _lone_initializers(proto: onnx.ModelProto) -> int:
    """How many initializers are no inputs in a file whose version asks for that."""
    if proto.ir_version >= INITIALIZERS_ALONE:
        return 0
    inputs = {value.name for value in proto.graph.input}
    return sum(initializer.name not in inputs for initializer in proto.graph.initializer)


def _imported(proto: onnx.ModelProto) -> Iterator[str]:
    """Imports ONNX Runtime's operators where a model uses them without that, as ONNX Runtime does."""
    used = any(node.domain == MICROSOFT for node in nodes_inside(proto.graph.node))
    if used and all(opset.domain != MICROSOFT for opset in proto.opset_import):
        proto.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
        yield f"it used operators of the domain {MICROSOFT} without importing it: version 1 is taken"


def _listed_once(graph: onnx.GraphProto) -> Iterator[str]:
    """Drops repeated entries of outputs; yields a description of each."""
    names = [value.name for value in graph.output]
    repeated = [place for place, name in enumerate(names) if name in names[:place]]
    for place in reversed(repeated):
        del graph.output[place]
    for name in dict.fromkeys(names[place] for place in repeated):
        yield f"output {name!r} was listed {names.count(name)} times: it is one output"


def _typed(proto: onnx.ModelProto) -> Iterator[str]:
    """Sets missing types of outputs, and drops entries of inner values without a type; yields descriptions."""
    inside = proto.graph.value_info
    empty = [place for place, value in enumerate(inside) if not value.type.WhichOneof("value")]
    for place in reversed(empty):
        del inside[place]
    if empty:
        yield f"{len(empty)} values had an entry without a type: it was dropped"
    untyped = [value for value in proto.graph.output if not value.type.WhichOneof("value")]
    if not untyped:
        return
    inferred = {value.name: value.type for value in onnx.shape_inference.infer_shapes(proto).graph.output}
    for value in untyped:
        if value.name in inferred and inferred[value.name].WhichOneof("value"):
            value.type.CopyFrom(inferred[value.name])
            yield f"output {value.name!r} had no type: it has the one that its node makes"


def write_out_defaults(proto: onnx.ModelProto) -> bool:
    """Writes out, in place, defaults that ONNX's shape inference takes for others, or that passes lose.

    The default of STFT is one-sided, but onnx 1.23 infers a two-sided shape, which seems to contradict every matrix
    product behind it. A loop without states may have an empty condition as its last input, which passes of onnx_ir
    remove; the loop then cannot be read any more.

    Returns:
        Whether any default was written.
    """
    found = False
    for node in nodes_inside(written_nodes(proto)):
        if node.op_type == "STFT" and not node.domain and all(given.name != "onesided" for given in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("onesided", 1))
            found = True
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        found |= _write_conditions(nodes)
    return found


def _write_conditions(nodes: MutableSequence[onnx.NodeProto]) -> bool:
    """Writes a constant condition into loops without states that leave it empty; returns whether there were any."""
    found = False
    for place, node in reversed(list(enumerate(nodes))):
        for graph in graphs_of(node):
            found |= _write_conditions(graph.node)
        if node.op_type == "Loop" and not node.domain and list(node.input[1:]) in ([], [""]):
            name = f"{next(filter(None, node.output), node.name)}/goes_on"
            node.input[1:] = [name]
            always = onnx.helper.make_tensor(name, onnx.TensorProto.BOOL, [], [True])
            nodes.insert(place, onnx.helper.make_node("Constant", [], [name], name, value=always))
            found = True
    return found


def _stated(graph: onnx.GraphProto) -> Iterator[str]:
    """Drops value infos with another shape than their constant has; onnxruntime-genai states [1] for a scalar."""
    shapes = {
        node.output[0]: tuple(attribute.t.dims)
        for node in graph.node
        for attribute in node.attribute
        if node.op_type == "Constant" and attribute.name == "value" and node.output
    }
    wrong = [
        place
        for place, value in enumerate(graph.value_info)
        if value.name in shapes
        and value.type.tensor_type.HasField("shape")
        and tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) != shapes[value.name]
    ]
    for place in reversed(wrong):
        del graph.value_info[place]
    if wrong:
        yield f"entries that state another shape than the constant's were dropped: {len(wrong)}"


def _permuted(proto: onnx.ModelProto) -> Iterator[str]:
    """Counts axes of Transposes from the start; PyTorch's older exporter writes them as ``permute`` is given them."""
    changed = 0
    for node in nodes_inside(written_nodes(proto)):
        if node.op_type == "Transpose" and not node.domain:
            for attribute in node.attribute:
                count = len(attribute.ints)
                if any(-count <= axis < 0 for axis in attribute.ints):
                    attribute.ints[:] = [axis + count if -count <= axis < 0 else axis for axis in attribute.ints]
                    changed += 1
    if changed:
        yield f"Transposes whose axes count from the end, which the standard does not allow, were mended: {changed}"


def _documented(proto: onnx.ModelProto) -> Iterator[Any]:
    """Every message that may have a doc string."""
    yield proto
    yield from proto.functions
    for function in proto.functions:
        yield from function.node
    waiting = [proto.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        yield from (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer)
        for node in graph.node:
            for attribute in node.attribute:
                yield attribute
                waiting += [attribute.g] if attribute.HasField("g") else list(attribute.graphs)


def _is_text(message: Any) -> bool:
    """Whether the doc string is text: protobuf returns bytes, or fails, if it is not."""
    try:
        return isinstance(message.doc_string, str)
    except UnicodeError:
        return False


def _odd_unused(graph: onnx.GraphProto) -> Iterator[str]:
    """Removes unused initializers of the main graph whose data are too short or too long; gives their names."""
    used = {name for node in graph.node for name in read_names(node)} | {value.name for value in graph.output}
    for position in range(len(graph.initializer) - 1, -1, -1):
        tensor = graph.initializer[position]
        if tensor.name in used or not tensor.HasField("raw_data"):
            continue
        try:
            width = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        except KeyError:
            continue
        if tensor.data_type not in _PACKED and len(tensor.raw_data) != width * math.prod(tensor.dims):
            name = tensor.name
            del graph.initializer[position]
            for place in range(len(graph.input) - 1, -1, -1):
                if graph.input[place].name == name:
                    del graph.input[place]
            yield name


_PACKED = {number for name, number in onnx.TensorProto.DataType.items() if name.endswith(("INT4", "INT2", "4E2M1"))}
"""Types with several elements per byte."""
