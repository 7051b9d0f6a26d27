"""Moves models to a version of the standard operators that the rest of EdgeKit and its libraries know."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx.version_converter
import onnx_ir as ir

from edgekit.errors import InputError, RequirementError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError
from edgekit.graph.reading.subgraphs import nodes_inside, written_nodes
from edgekit.model import Model
from edgekit.rewrite import InapplicableError
from edgekit.rewrites.old_opsets import raised

OLDEST_OPSET = 9
"""Operator sets before this one are upgraded: in those, a batch normalization still had a training mode, for
example."""

UPGRADE_TO = (17, 13, 11, OLDEST_OPSET)
"""Operator sets to upgrade to, the first that works: the converter lacks some steps for some operators."""

KNOWN_EARLIER = {"LayerNormalization": 17}
"""Operators that ONNX Runtime also takes in operator sets before ONNX had them, since ONNX Runtime had them first."""

_ASIDE = "aside."
"""What the domains of nodes begin with that the converter is not to look at."""

_IR_VERSION = 8
"""The IR version that belongs to the first of `UPGRADE_TO`; the oldest ones allow no initializers that are no
inputs."""


def upgraded(model: Model) -> Model:
    """Returns the model in a newer operator set, in which it computes the same.

    Raises:
        RequirementError: The model cannot be converted, or would compute something else.
    """
    found: list[str] = []
    before = _compared_with(model, found)
    newer = None if before is None else _converted(model, before, found)
    if newer is not None:
        return newer
    try:
        oldest = raised(model)
        # ONNX Runtime has no kernels for many operators of the oldest sets: a model that it cannot execute is raised by
        # the definition of the steps alone
        newer = _converted(oldest, before or Equivalence(oldest), [])
        if newer is not None:
            return newer
        difference = None if before is None else before.difference(oldest)
    except InapplicableError as error:
        difference = str(error)
    except NotRunnableError as error:
        difference = f"what it computes cannot be compared: {error}"
    if difference is None:
        return oldest
    raise RequirementError(
        f"opset {model.opset} is too old, and the model cannot be upgraded",
        subject=model.source,
        expected=f"opset {OLDEST_OPSET} or newer",
        found=found[-1] if found else difference,
        hint="export the model again with a newer opset_version",
    )


def _compared_with(model: Model, found: list[str]) -> Equivalence | None:
    """Returns what newer forms of the model are compared with; None, with an entry in ``found``, if it does not run."""
    try:
        return Equivalence(model)
    except NotRunnableError as error:
        found.append(str(error))
        return None


def _converted(model: Model, before: Equivalence, found: list[str]) -> Model | None:
    """Returns what ONNX's own converter makes of the model, or None if that fails or is not proven."""
    for version in UPGRADE_TO:
        try:
            converted = _convert(model.proto(), version, _crashes_the_inference)
        except (RuntimeError, ValueError) as error:  # the converter is native code and has no error of its own
            found.append(" ".join(str(error).split()))
            continue
        converted.ir_version = max(converted.ir_version, _IR_VERSION)
        newer = model.with_graph(ir.from_proto(converted))
        difference = before.difference(newer)
        if difference is None:
            return newer
        found.append(f"as opset {version} it computes something else: {difference}")
    return None


def raised_to_operators(model: Model) -> Model:
    """Returns the model in the operator set that its operators of :data:`KNOWN_EARLIER` need.

    onnxruntime's optimizer for Transformers leaves an older import as it was. The model is returned unchanged, too, if
    what it computes in the newer set is not the same or cannot be compared.
    """
    needed = max((KNOWN_EARLIER.get(node.op_type, 0) for node in model.graph.all_nodes() if not node.domain), default=0)
    if model.opset >= needed:
        return model
    copy = model.graph_model.clone()
    for graph in copy.graphs():
        if "" in graph.opset_imports:
            graph.opset_imports[""] = needed
    copy.opset_imports[""] = needed
    as_it_is = model.with_graph(copy)
    try:
        before = Equivalence(model)
        if before.difference(as_it_is) is None:
            return as_it_is
        newer = _converted_around(model, needed)
        return model if newer is None or before.difference(newer) is not None else newer
    except (NotRunnableError, InputError):  # what is wrong with the model is reported where the model is checked
        return model


def _converted_around(model: Model, version: int) -> Model | None:
    """Returns the model with all other operators converted by ONNX's converter, or None if that fails."""
    try:
        converted = _convert(model.proto(), version, lambda node: node.op_type in KNOWN_EARLIER and not node.domain)
    except (RuntimeError, ValueError):  # native code, which has no error of its own
        return None
    return model.with_graph(ir.from_proto(converted))


def _crashes_the_inference(node: onnx.NodeProto) -> bool:
    """Whether ONNX's inference, which the converter runs, may crash the process at a node.

    That of a LabelEncoder reads the type of its input without checking that there is one (onnx 1.23); a
    TreeEnsembleRegressor gives none.
    """
    return node.op_type == "LabelEncoder" and node.domain == "ai.onnx.ml"


def _convert(proto: onnx.ModelProto, version: int, is_aside: Callable[[onnx.NodeProto], bool]) -> onnx.ModelProto:
    """Returns what ONNX's own converter makes of a message, in which nodes that are set aside stay as they are.

    Raises:
        RuntimeError: The converter cannot do it.
        ValueError: The converter cannot do it.
    """
    hidden = [node for node in nodes_inside(written_nodes(proto)) if is_aside(node)]
    for node in hidden:
        node.domain = f"{_ASIDE}{node.domain}"
    proto.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in {node.domain for node in hidden})
    converted = onnx.version_converter.convert_version(proto, version)
    for node in nodes_inside(written_nodes(converted)):
        node.domain = node.domain.removeprefix(_ASIDE)
    kept = [imported for imported in converted.opset_import if not imported.domain.startswith(_ASIDE)]
    del converted.opset_import[:]
    converted.opset_import.extend(kept)
    return converted


def lowered(model: Model, newest: int) -> Model:
    """Returns the model in opset ``newest`` if it imports a newer one and its nodes are the same there; else unchanged.

    A node is the same if the older version of its operator takes as many inputs, and has all its attributes apart from
    those at their defaults. Types that only the newer version takes show when a runtime refuses them.
    """
    if model.opset <= newest or not all(has_older_form(node, model.opset, newest) for node in model.graph.all_nodes()):
        return model
    copy = model.graph_model.clone()
    for node in copy.graph.all_nodes():
        if node.domain == "":
            known = onnx.defs.get_schema(node.op_type, newest).attributes
            for name in [name for name in node.attributes if name not in known]:
                del node.attributes[name]
    for graph in copy.graphs():
        if "" in graph.opset_imports:
            graph.opset_imports[""] = newest
    copy.opset_imports[""] = newest
    return model.with_graph(copy)


def has_older_form(node: ir.Node, opset: int, older: int) -> bool:
    """Whether an older version of a node's operator can take its place, as far as attributes and inputs tell."""
    if node.domain != "":
        return True
    try:
        now, then = (onnx.defs.get_schema(node.op_type, version) for version in (opset, older))
    except onnx.defs.SchemaError:
        return False
    if now.since_version == then.since_version:
        return True
    added = [node.attributes[name] for name in node.attributes if name not in then.attributes]
    at_defaults = all(
        now.attributes[attribute.name].default_value.name
        and ir.serde.deserialize_attribute(now.attributes[attribute.name].default_value).value == attribute.value
        for attribute in added
    )
    return at_defaults and len(node.inputs) <= then.max_input
