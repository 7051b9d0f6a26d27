"""Says what a file or a folder is that was given in place of an ONNX model, and what to do about it."""

from __future__ import annotations

import zipfile
from itertools import islice
from pathlib import Path
from shlex import quote

import onnx

from edgekit.errors import InputError
from edgekit.files import lfs

_OPTIMUM = "export the model with torch.onnx.export, or one of Hugging Face's with `optimum-cli export onnx`"
_OTHER_FORMATS = (
    # offset of the magic bytes, the bytes, what such a file is, what to do
    (0, lfs.MAGIC, "a Git LFS pointer", f"fetch the file itself with {lfs.FETCHING}"),
    (0, b"PK\x03\x04", "a ZIP archive, such as a PyTorch checkpoint", "export the model with torch.onnx.export"),
    (0, b"\x80", "a Python pickle, such as a PyTorch checkpoint", "export the model with torch.onnx.export"),
    (0, b"\x89HDF", "an HDF5 file, such as a Keras model", "convert it with tf2onnx"),
    (0, b"GGUF", "a GGUF file of weights", _OPTIMUM),
    (4, b"TFL3", "a TensorFlow Lite model", "convert it with tf2onnx"),
    (4, b"ORTM", "a model in the .ort format", "give the .onnx file that it was made from"),
    (0, b"\x1f\x8b", "a file that gzip compressed", "unpack it first: gzip -d"),
    (0, b"<?xml", "an XML file, such as a model of another runtime's", "give the .onnx file that it was made from"),
    (0, b"<net", "an XML file, such as a model of another runtime's", "give the .onnx file that it was made from"),
    (0, b"<", "a web page", "download the model again"),
)
_CONTAINERS = (b"PK\x03\x04", b"\x80", b"\x89HDF")
"""The first bytes of formats that several libraries use."""
_PICKLED = (
    "convert the model with skl2onnx (scikit-learn) or onnxmltools (LightGBM, XGBoost), or, if it is of PyTorch, "
    "export it with torch.onnx.export"
)
_KERAS = "export the model with model.export(FILE, format='onnx') in Keras 3, or convert it with tf2onnx"
_BOOSTED = "convert the model with onnxmltools"
_TENSORFLOW = "convert it with tf2onnx"
_PADDLE = "convert the model with paddle2onnx"
_ITS_ORIGINAL = "give the .onnx file that it was made from"
_EXPORTERS = {
    **dict.fromkeys((".joblib", ".pkl", ".pickle", ".sav"), _PICKLED),
    **dict.fromkeys((".keras", ".h5", ".hdf5"), _KERAS),
    ".safetensors": f"it holds weights without the model: {_OPTIMUM}",
    ".pb": _TENSORFLOW,
    **dict.fromkeys((".pdmodel", ".pdiparams"), _PADDLE),
    **dict.fromkeys((".mlmodel", ".engine", ".plan", ".trt", ".blob"), _ITS_ORIGINAL),
    **dict.fromkeys((".npz", ".npy"), "it holds arrays: give the .onnx file here, and samples with --data"),
    **dict.fromkeys((".ubj", ".xgb", ".bst", ".lgb"), _BOOSTED),
}
"""What to do with files of other libraries, by their suffixes."""
_ANY_EXPORTER = (
    "export the model: torch.onnx.export (PyTorch), skl2onnx (scikit-learn), onnxmltools (LightGBM, XGBoost), "
    "model.export(FILE, format='onnx') (Keras 3), tf2onnx (TensorFlow)"
)
IR_VERSION_TAG = 0x08
"""First byte of nearly every ONNX file: field 1 of ModelProto, a number."""


def _packed_model(path: Path) -> str | None:
    """Returns the name of the ONNX file in a ZIP archive, or None if there is none or the file is no archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return next((name for name in archive.namelist() if name.casefold().endswith(".onnx")), None)
    except (OSError, zipfile.BadZipFile):
        return None


def not_a_model(path: Path, data: bytes) -> InputError:
    """The error for a file that is not an ONNX model.

    Args:
        path: The file.
        data: Its bytes; at least one.
    """
    if (packed := _packed_model(path)) is not None:
        return InputError(
            f"is not an ONNX model but a ZIP archive that holds {packed!r}", subject=path, hint="unpack it first"
        )
    by_suffix = _EXPORTERS.get(path.suffix.casefold())
    for offset, magic, what, hint in _OTHER_FORMATS:
        if by_suffix is not None and magic in _CONTAINERS:
            continue
        if data[offset : offset + len(magic)] == magic:
            return InputError(f"is not an ONNX model but {what}", subject=path, hint=hint)
    if by_suffix is None and data[0] == IR_VERSION_TAG and len(data) > 1 and 0 < data[1] <= onnx.IR_VERSION:
        return InputError(
            "is an ONNX model that is damaged or cut short",
            subject=path,
            found=f"{len(data)} bytes",
            hint="copy or download it again",
        )
    return InputError("is not an ONNX model", subject=path, hint=by_suffix or _ANY_EXPORTER)


_MODEL_FOLDERS = (".mlpackage", ".mlmodelc", ".aimodel")
"""Suffixes of folders that Apple's tools take for a file."""
_MOST_FILES = 10_000
_MOST_NAMED = 3


def hint_for_folder(path: Path) -> str:
    """What to do about a folder, or about anything else that is no file, in place of an ONNX file."""
    if (path / "manifest.json").is_file() or path.suffix.casefold() in _MODEL_FOLDERS:
        return _ITS_ORIGINAL
    files = sorted(islice((file for way in ("*.onnx", "*/*.onnx") for file in path.glob(way)), _MOST_FILES))
    if len(files) == 1:
        return f"give the .onnx file itself, {files[0]}"
    if files:
        further = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        return f"give one of its .onnx files: {', '.join(map(str, files[:_MOST_NAMED]))}{further}"
    written = quote(str(path))
    if (path / "saved_model.pb").is_file():
        return f"convert the SavedModel: python -m tf2onnx.convert --saved-model {written} --output model.onnx"
    if (path / "config.json").is_file():
        output = quote(f"{path.resolve().name}-onnx")
        return f"if it is a model of Hugging Face's, export it: optimum-cli export onnx --model {written} {output}"
    return "give the .onnx file itself"
