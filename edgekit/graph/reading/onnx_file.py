"""Reads an ONNX file, and says clearly what is wrong with a file that is not one."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from edgekit.errors import InputError, InternalError
from edgekit.features.dimensions import shape_text
from edgekit.files import lfs
from edgekit.files.atomic import atomic_file
from edgekit.files.missing import hint_for_missing
from edgekit.files.regular_file import real_path
from edgekit.files.replacing import require_kind
from edgekit.files.utf8_names import require_name_for_libraries
from edgekit.graph.input_notes import with_notes
from edgekit.graph.reading.other_files import IR_VERSION_TAG, hint_for_folder, not_a_model
from edgekit.graph.reading.subgraphs import graphs_of
from edgekit.graph.sizes.shapes import light_proto
from edgekit.model import PROTOBUF_LIMIT, Model

_TOO_DEEP = "MaxDepth"
"""What protobuf's error says of messages that are nested too deeply."""
_NAME_BYTES, _PATH_BYTES = 255, 4096
"""The most bytes of a name and of a path: no more than Linux, macOS and Windows allow."""
STANDARD_DOMAINS = ("", "ai.onnx")
"""Names of the domain of the standard operators; both mean the same."""


def read_proto(path: Path) -> onnx.ModelProto:
    """The file's message, without the tensors that it keeps in other files.

    Raises:
        InputError: The file is missing, is no ONNX model, or is damaged.
    """
    if not os.path.lexists(path) or (path.is_symlink() and not path.exists()):
        raise InputError("there is no such file", subject=path, hint=hint_for_missing(path))
    if not path.is_file():
        raise InputError("is not a file", subject=path, hint=hint_for_folder(path))
    size = path.stat().st_size
    if size == 0:
        raise InputError("is not an ONNX model: the file is empty", subject=path)
    if size > PROTOBUF_LIMIT:
        raise InputError(
            "cannot be read: an ONNX file of 2 GiB or more breaks protobuf's limit",
            subject=path,
            found=f"{size} bytes",
            hint="save it with onnx.save(model, path, save_as_external_data=True)",
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or str(error)).lower()}", subject=path) from error
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        if _TOO_DEEP in str(error):
            raise InputError(
                "is nested too deeply to be read as an ONNX model",
                subject=path,
                hint="export the model with fewer branches and loops inside each other",
            ) from error
        raise not_a_model(path, data) from error
    if proto.ir_version < 1 or not proto.HasField("graph"):
        raise not_a_model(path, data)
    return proto


def check_ir_version(proto: onnx.ModelProto, path: Path) -> None:
    """Checks that EdgeKit knows the version of the file format.

    Raises:
        InputError: It is a newer version.
    """
    if proto.ir_version > onnx.IR_VERSION:
        raise InputError(
            "is written in a newer version of the ONNX format",
            subject=path,
            expected=f"IR version 1 to {onnx.IR_VERSION}",
            found=f"IR version {proto.ir_version}",
            hint="update the onnx package",
        )


def check_opset(proto: onnx.ModelProto, path: Path) -> None:
    """Checks that EdgeKit knows the version of the standard operators.

    Raises:
        InputError: The version is unknown, or the model does not state it.
    """
    newest = onnx.defs.onnx_opset_version()
    version = next((opset.version for opset in proto.opset_import if opset.domain in STANDARD_DOMAINS), None)
    if version is None and any(node.domain in STANDARD_DOMAINS for node in proto.graph.node):
        raise InputError(
            "does not say which version of the standard operators it uses",
            subject=path,
            hint="the file may be cut short; copy it or export the model again",
        )
    if version is not None and not 1 <= version <= newest:
        raise InputError(
            "uses an unknown version of the standard operators",
            subject=path,
            expected=f"opset 1 to {newest}",
            found=f"opset {version}",
            hint="export the model with a known opset_version, or update the onnx package",
        )


def external_files(proto: onnx.ModelProto, path: Path) -> list[Path]:
    """The files that hold the model's tensors, each checked to lie in the model's folder and to be long enough.

    Raises:
        InputError: A file is missing or cut short, or the model points outside its folder.
    """
    needed: dict[str, int] = {}
    for tensor in _tensors(proto):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", 0))
        except ValueError as error:
            raise InputError(f"tensor {tensor.name!r} has no valid place in its file", subject=path) from error
        if offset < 0 or length < 0:
            raise InputError(f"tensor {tensor.name!r} has no valid place in its file", subject=path, found=entries)
        size = _stored_bytes(tensor, path)
        if 0 < length < size:
            raise InputError(
                f"tensor {tensor.name!r} has fewer bytes in its file than its shape needs",
                subject=path,
                expected=f"{size} bytes for {_described(tensor)}",
                found=f"{length} bytes",
                hint="save the model again",
            )
        needed[location] = max(offset + max(length, size), needed.get(location, 0))
    return [_checked_location(location, size, path) for location, size in needed.items()]


def _stored_bytes(tensor: onnx.TensorProto, path: Path) -> int:
    """The bytes that a tensor in another file takes.

    Raises:
        InputError: Another file cannot hold such a tensor: a size is negative, or the elements have no fixed length.
    """
    try:
        bits: int = ir.DataType(tensor.data_type).bitwidth
    except (ValueError, TypeError) as error:  # not a type; a type without a length, such as texts
        raise InputError(
            f"tensor {tensor.name!r} is in another file, which cannot hold its element type",
            subject=path,
            expected="numbers or booleans",
            found=_described(tensor),
            hint="save the model again",
        ) from error
    if any(size < 0 for size in tensor.dims):
        raise InputError(
            f"tensor {tensor.name!r} has a negative size",
            subject=path,
            found=_described(tensor),
            hint="save the model again",
        )
    elements: int = math.prod(tensor.dims)
    return (elements * bits + 7) // 8


def _described(tensor: onnx.TensorProto) -> str:
    known = tensor.data_type in onnx.TensorProto.DataType.values()
    name = onnx.TensorProto.DataType.Name(tensor.data_type) if known else f"type {tensor.data_type}"
    return f"{name} {shape_text(tuple(tensor.dims))}"


def _checked_location(location: str, size: int, model: Path) -> Path:
    parts = PurePosixPath(location.replace("\\", "/")).parts
    outside = ".." in parts or PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor != ""
    file = model.parent / location
    if (
        "\0" in location
        or max(map(len, map(os.fsencode, parts)), default=0) > _NAME_BYTES
        or len(location) > _PATH_BYTES
    ):
        raise InputError(
            "keeps tensors in a file that no file system can hold",
            subject=model,
            expected=f"a name of {_NAME_BYTES} bytes at most, without NUL",
            found=f"{location[:80]!r}",
        )
    if not location or outside or not real_path(file).is_relative_to(real_path(model.parent)):
        raise InputError(
            "keeps tensors outside its own folder, which is refused",
            subject=model,
            found=repr(location),
            hint="put the data file beside the model, and save the model with that location",
        )
    if os.path.lexists(file) and (not file.is_file() or location.endswith("/")):
        raise InputError(
            f"its tensors are in {location!r}, which is not a file", subject=model, hint="put the data file there"
        )
    if not file.is_file():
        raise InputError(
            f"its tensors are in {location!r}, which is missing",
            subject=model,
            expected=file,
            hint="copy the data file together with the model",
        )
    if file.is_symlink() or file.stat().st_nlink > 1:
        raise InputError(
            f"its tensors are in {location!r}, which is a link to another file; that is refused",
            subject=model,
            hint="put a copy of the data file in the link's place",
        )
    if lfs.is_pointer(file):
        raise InputError(
            f"its tensors are in {location!r}, which is a Git LFS pointer",
            subject=model,
            hint=f"fetch the file itself with {lfs.FETCHING}",
        )
    found = file.stat().st_size
    if found < size:
        raise InputError(
            f"its tensors are in {location!r}, which is cut short",
            subject=model,
            expected=f"{size} bytes",
            found=f"{found} bytes",
            hint="copy the data file again",
        )
    return file


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yields every tensor of a model: initializers and attributes, also in subgraphs and functions."""
    for graph in _graphs(proto.graph):
        yield from graph.initializer
        yield from _attribute_tensors(graph.node)
    for function in proto.functions:
        yield from _attribute_tensors(function.node)
        for graph in _subgraphs(function.node):
            yield from graph.initializer
            yield from _attribute_tensors(graph.node)


def _attribute_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all graphs inside its nodes."""
    yield graph
    yield from _subgraphs(graph.node)


def _subgraphs(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    for node in nodes:
        for graph in graphs_of(node):
            yield from _graphs(graph)


def sha256(path: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_rules(path: Path, model: Model, *, with_shapes: bool = True) -> None:
    """Checks a file against the rules of ONNX.

    Args:
        path: The file.
        model: The model that was read from the file or written to it.
        with_shapes: Whether the shapes have to agree with one another, too.

    Raises:
        onnx.checker.ValidationError: It breaks a rule.
        onnx.shape_inference.InferenceError: Only its shapes contradict one another.
    """
    if _has_ranks(model):
        onnx.checker.check_model(str(path), full_check=with_shapes)
    else:
        check_in_memory(model)


def check_in_memory(model: Model) -> None:
    """Checks a model in memory against the rules of ONNX.

    Raises:
        onnx.checker.ValidationError: It breaks a rule.
        onnx.shape_inference.InferenceError: Only its shapes contradict one another.
    """
    if _has_ranks(model):
        onnx.checker.check_model(light_proto(model), full_check=True)
        return
    # The checker refuses inputs and outputs of unknown rank, which runtimes accept. Here they get a rank for the check.
    copy = model.with_graph(model.graph_model.clone())
    for value in (*copy.graph.inputs, *copy.graph.outputs):
        value.shape = value.shape if value.shape is not None else ir.Shape([])
    onnx.checker.check_model(light_proto(copy))


def _has_ranks(model: Model) -> bool:
    return all(value.shape is not None for value in (*model.graph.inputs, *model.graph.outputs))


def _spare_data_files(model: Model, path: Path) -> None:
    """Refuses to overwrite a file in which the model, or the model it was loaded from, keeps its tensors.

    Raises:
        InputError: ``path`` is such a file.
    """
    used = {Path(tensor.path) for tensor in model.tensors() if isinstance(tensor, ir.ExternalTensor)}
    if model.source is not None and model.source.is_file() and model.source.stat().st_size <= PROTOBUF_LIMIT:
        used.update(external_files(read_proto(model.source), model.source))
    if path.exists() and any(file.exists() and file.samefile(path) for file in used):
        raise InputError("holds tensors of the model itself", subject=path, hint="choose another name with -o")


def require_place_for_model(path: Path) -> None:
    """Checks that no file of another kind is where an ONNX model is to be written.

    Raises:
        InputError: The file has another suffix, and does not begin as an ONNX model.
    """
    if path.suffix.casefold() != ".onnx":
        require_kind(path, "an ONNX model", lambda head: head[0] == IR_VERSION_TAG)


def write_model(model: Model, path: Path) -> None:
    """Writes the model as an ONNX file, completely or not at all, and checks it against the rules of ONNX.

    Its metadata describe inputs that accept random numbers, or numbers in place of texts
    (:mod:`edgekit.graph.input_notes`).

    Raises:
        InputError: The file cannot be written, or a file of another kind is in its place.
        InternalError: The model to be written breaks the rules.
    """
    require_name_for_libraries(path)
    _spare_data_files(model, path)
    require_place_for_model(path)
    with atomic_file(path) as draft:
        with_notes(model).save(draft)
        try:
            check_rules(draft, model, with_shapes=False)
        except onnx.checker.ValidationError as error:
            text = " ".join(str(error).split())
            raise InternalError(f"would be written as a model that breaks the rules: {text}", subject=path) from error
