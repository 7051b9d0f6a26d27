"""Reads bundles, the folders that ``edgekit package`` writes.

A bundle is a folder::

    manifest.json                     what manifest.schema.json describes, without the times
    measurements.json                 the times, by their places in the manifest; see edgekit.measurements
    model.*                           what the device loads; ``model.main`` in the manifest
    <profile>/                        what a further device loads, and its check; ``also`` in the manifest
    golden/<sample>/inputs/<i>.npy    a few inputs, numbered as the manifest's ``inputs``
    golden/<sample>/outputs/<i>.npy   the original model's outputs for them, numbered as the manifest's ``outputs``
    golden/<sample>/built/<i>.npy     the built model's outputs for them; ``built-<profile>`` for a further build
    graph.json                        the graph that was built, without its weights; what graph.schema.json describes
    check.*                           the check to run on the device, which needs no EdgeKit
    report.md                         a summary for people

Arrays have the ONNX model's shapes and element types. Samples are numbered from 0.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from edgekit import __version__
from edgekit.data.npy import read_npy
from edgekit.data.table_samples import TableInputs
from edgekit.errors import InputError, InternalError, RequirementError
from edgekit.features.class_scores import EMBEDDINGS, ClassChoice
from edgekit.features.dimensions import OpenDims, from_record, shape_text
from edgekit.features.draws import Draw
from edgekit.features.tokens import TokenRule
from edgekit.files import bundle_folder, lfs
from edgekit.files.bundle_folder import listed_files
from edgekit.files.left_by_systems import is_left_by_system
from edgekit.files.line_ends import KEEPING, has_other_line_ends
from edgekit.files.regular_file import read_json
from edgekit.files.utf8_names import require_name_for_libraries
from edgekit.manifest import inconsistency, manifest_of, place_of_nothing
from edgekit.measurements import MEASUREMENTS, join, without_times
from edgekit.model import Arrays, states_among
from edgekit.schema import find_flaw, not_finite
from edgekit.target import Feature

MANIFEST = bundle_folder.MANIFEST
SIGNATURE = "manifest.json.sig"
"""The manifest's signature, where the bundle is signed: the one file that the manifest cannot list."""
UNLISTED = (MANIFEST, SIGNATURE, MEASUREMENTS)
"""The files that the manifest does not list: itself, its signature, and times, which differ from run to run."""
GOLDEN = "golden"
REPORT = "report.md"
GRAPH = "graph.json"
RESERVED = (*UNLISTED, GOLDEN, REPORT, GRAPH)
"""The names in a bundle's folder that EdgeKit itself writes: no target may write files of these names."""
SCHEMA_VERSION = 1
SCHEMA_FILE = "manifest.schema.json"
GRAPH_SCHEMA_FILE = "graph.schema.json"


_LEAVE_INPUTS_OUT = ("take branch", "fix values")
"""The stages whose record names inputs under ``left_out``."""


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk whose manifest is valid."""

    path: Path
    manifest: Mapping[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        target, model, size = (self.manifest.get(key) or {} for key in ("target", "model", "size"))
        description = ", ".join(str(each) for each in (target.get("profile"), model.get("kind")) if each)
        return f"Bundle({str(self.path)!r}: {description}, {size.get('bytes', 0):,} bytes)"

    @property
    def builds(self) -> tuple[Bundle, ...]:
        """One bundle per build: this bundle for the main build, then one for each further build in its folder.

        The manifest of each states the target, model, features, accuracy and floors of that build.
        """
        return (self, *(replace(self, manifest=manifest_of(self.manifest, entry)) for entry in self.further))

    @property
    def further(self) -> Sequence[Mapping[str, Any]]:
        """The manifest's entries for further builds, one per device profile."""
        return tuple(self.manifest.get("also", ()))

    @property
    def name(self) -> str:
        """The bundle's name, as the manifest states it."""
        return str(self.manifest["name"])

    @property
    def profile_name(self) -> str:
        """The device profile that the bundle was built for."""
        return str(self.manifest["target"]["profile"])

    @property
    def target_name(self) -> str:
        """The target that built the bundle."""
        return str(self.manifest["target"]["name"])

    @property
    def main(self) -> Path:
        """The file or folder that the device loads."""
        return self.path / str(self.manifest["model"]["main"])

    @property
    def loaded_files(self) -> dict[str, str]:
        """SHA-256 sums of the files that a device needs to load the model once, by their paths in the bundle."""
        model = self.manifest["model"]
        shipped = set(model["files"]) - set(model.get("alternatives", ()))
        places = ((file["path"], file["sha256"]) for file in self.manifest["files"])
        return {path: digest for path, digest in places if shipped & {path, *map(str, PurePosixPath(path).parents)}}

    @cached_property
    def inputs(self) -> tuple[Feature, ...]:
        """The original model's inputs, with their names, types and shapes in the built model."""
        return tuple(feature_from_record(record) for record in self.manifest["inputs"])

    @cached_property
    def outputs(self) -> tuple[Feature, ...]:
        """The original model's outputs, with their names, types and shapes in the built model."""
        return tuple(feature_from_record(record) for record in self.manifest["outputs"])

    @property
    def nan_inputs(self) -> frozenset[str]:
        """The inputs that may hold NaN, which stands for a missing value."""
        return frozenset(feature.name for feature in self.inputs if feature.takes_nan)

    @property
    def takes(self) -> TableInputs:
        """What the model takes from the columns of a table."""
        stated = [stage["record"].get("metadata", {}) for stage in self.manifest["stages"] if stage["name"] == "load"]
        labels = tuple(self.manifest["labels"] or ())
        return TableInputs(
            tuple(one.spec for one in self.inputs), self.nan_inputs, labels, stated[-1] if stated else {}
        )

    @property
    def states(self) -> Mapping[str, str]:
        """The original's inputs that the built model keeps between runs, each with the output that replaces it."""
        return {record["name"]: record["replaced_by"] for record in self.manifest.get("states", ())}

    @property
    def unused_inputs(self) -> tuple[str, ...]:
        """The original's inputs that the built model does not take: its states, and the inputs that stages left out."""
        stages = (stage for stage in self.manifest["stages"] if stage["name"] in _LEAVE_INPUTS_OUT)
        return (*self.states, *(name for stage in stages for name in stage["record"].get("left_out", ())))

    @property
    def class_choice(self) -> ClassChoice:
        """What is known of the output that gives the class: its name, the number of class names, which are states."""
        classes, labels = self.manifest.get("classes"), self.manifest["labels"]
        named = None if classes is None else classes["output"]
        states = states_among([one.spec for one in self.inputs], [one.spec for one in self.outputs])
        task = self.manifest["accuracy"]["task"]
        answers = frozenset() if task is None or classes is not None else frozenset({task["output"]})
        ranked = self.manifest["accuracy"].get("ranked")
        floats = {one.name for one in self.outputs if one.spec.dtype.startswith("float")}
        return ClassChoice(
            named,
            len(labels) if labels else None,
            self.class_numbers,
            states,
            embeddings=self.embeddings,
            answers=answers,
            in_order=frozenset(floats.intersection(() if ranked is None else ranked["outputs"])),
            listed=answers if task is not None and "listed" in task else frozenset(),
        )

    @property
    def embeddings(self) -> frozenset[str]:
        """The outputs that the samples showed to be embeddings when the bundle was made."""
        meaning = self.manifest["accuracy"].get("meaning")
        return frozenset(meaning["outputs"] if meaning is not None and meaning["kind"] == EMBEDDINGS else ())

    @property
    def class_numbers(self) -> Mapping[str, tuple[int, ...]]:
        """For each output of class numbers: the numbers of the classes in order, if they are not 0, 1 and so on."""
        records = (stage["record"] for stage in self.manifest["stages"] if stage["name"] == "load")
        recorded: Mapping[str, Sequence[int]] = next((record.get("class_numbers", {}) for record in records), {})
        return {name: tuple(numbers) for name, numbers in recorded.items()}

    @property
    def open_dims(self) -> OpenDims:
        """The sizes that dimensions of the inputs may take."""
        return {name: from_record(record) for name, record in self.manifest.get("dimensions", {}).items()}

    def graph(self) -> Mapping[str, Any] | None:
        """The graph that was built; None if an older EdgeKit wrote the bundle, without a graph.

        Raises:
            RequirementError: The file is damaged.
        """
        file = self.path / GRAPH
        if not file.is_file():
            return None
        try:
            graph: dict[str, Any] = read_json(file)
            flaw = find_flaw(graph, GRAPH_SCHEMA_FILE) or place_of_nothing(graph)
        except InputError as error:
            flaw = error.message
        except RecursionError:
            flaw = "it is nested too deeply"
        if flaw is not None:
            raise RequirementError(f"cannot be read: {flaw}", subject=file, hint="package the model again")
        return graph

    def golden(self) -> Iterator[tuple[Arrays, Arrays]]:
        """The golden samples, one at a time: inputs and outputs by ONNX name.

        The outputs are the reference for this build: those of the original or, where the manifest says so, those that
        the built model computed when it was packaged.

        Raises:
            RequirementError: A file is missing or damaged, or an input has another shape than the manifest says.
        """
        held = {floor["name"]: floor.get("folder", "outputs") for floor in self.manifest["golden"]["outputs"]}
        for sample in range(self.manifest["golden"]["samples"]):
            folder = self.path / GOLDEN / str(sample)
            yield self._arrays(folder, self.inputs, {}, "inputs"), self._arrays(folder, self.outputs, held, "outputs")

    def _arrays(self, folder: Path, features: tuple[Feature, ...], places: Mapping[str, str], default: str) -> Arrays:
        arrays = {}
        for position, feature in enumerate(features):
            file = folder / places.get(feature.name, default) / f"{position}.npy"
            try:
                array = read_npy(file)
            except InputError as error:
                raise RequirementError(
                    f"golden data cannot be read: {error.message}", subject=file, hint="package the model again"
                ) from error
            if features is self.inputs and not feature.spec.takes_shape(array.shape):
                raise RequirementError(
                    "golden data has another shape than the manifest says",
                    subject=file,
                    expected=str(feature.spec),
                    found=shape_text(array.shape),
                    hint="package the model again",
                )
            arrays[feature.name] = array
        return arrays


def read_bundle(path: Path) -> Bundle:
    """The bundle at ``path``. Its files are not hashed; see :func:`check_integrity`.

    Raises:
        InputError: There is no bundle, its manifest is invalid, or its times are missing.
    """
    manifest_file = path / MANIFEST
    if not manifest_file.is_file():
        found = "a folder without one" if path.is_dir() else "a file" if path.exists() else "nothing"
        raise InputError(
            "is not a bundle",
            subject=path,
            expected=f"a folder with a {MANIFEST}",
            found=found,
            hint=_hint_at(path),
        )
    require_name_for_libraries(path)
    manifest = read_json(manifest_file)
    if (path / MEASUREMENTS).exists():
        flaw = join(manifest, read_json(path / MEASUREMENTS))
        if flaw is not None:
            raise InputError(
                "does not fit the manifest", subject=path / MEASUREMENTS, found=flaw, hint="package the model again"
            )
    try:
        flaw = find_flaw(manifest, SCHEMA_FILE) or not_finite(manifest) or inconsistency(manifest)
    except RecursionError:
        flaw = "it is nested too deeply"
    if flaw is not None:
        raise InputError(
            "is not a manifest of a bundle",
            subject=manifest_file,
            expected=f"what schema version {SCHEMA_VERSION} describes",
            found=flaw,
            hint=f"{_written_by(manifest)}: package the model again",
        )
    _require_times(path, manifest)
    return Bundle(path, manifest)


def other_writer(path: Path) -> str | None:
    """The other version of EdgeKit that wrote a folder's manifest; None if this version did, or if it is unknown."""
    try:
        manifest = read_json(path / MANIFEST)
    except InputError:
        return None
    if not isinstance(manifest, dict):
        return None
    writer, schema = manifest.get("edgekit"), manifest.get("schema_version")
    if isinstance(writer, str) and writer != __version__:
        return f"EdgeKit {writer}"
    return f"schema version {schema}" if isinstance(schema, int) and schema != SCHEMA_VERSION else None


def _written_by(manifest: object) -> str:
    """Says, for hints, which EdgeKit may have written an invalid manifest."""
    writer = manifest.get("edgekit") if isinstance(manifest, dict) else None
    if not isinstance(writer, str) or writer == __version__:
        return "the bundle may come from another version of EdgeKit"
    return f"EdgeKit {writer} wrote the bundle, and this is {__version__}"


def _require_times(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raises an error if times are neither in the manifest nor in the file beside it."""
    absent = without_times(manifest)
    if absent is None:
        return
    if not (path / MEASUREMENTS).exists():
        raise InputError(
            "is not there",
            subject=path / MEASUREMENTS,
            expected=f"the times of {path / MANIFEST}",
            hint="copy the whole bundle, or package the model again",
        )
    raise InputError(
        "does not fit the manifest",
        subject=path / MEASUREMENTS,
        found=f"no time for {absent}",
        hint="package the model again",
    )


def _hint_at(path: Path) -> str:
    """The hint for a path that holds no bundle."""
    if path.name == MANIFEST and path.is_file():
        return f"give its folder, {path.parent}"
    if path.suffix.casefold() == ".onnx":
        return "give the bundle that `edgekit package` made of it (`bench --model` compares with the model itself)"
    if path.is_file() and zipfile.is_zipfile(path):
        return "unpack the archive first, and give the bundle's folder"
    return "`edgekit package` makes bundles"


def is_bundle(path: Path) -> bool:
    """Whether ``path`` holds a bundle of whatever version: a folder whose manifest says that EdgeKit wrote it."""
    return listed_files(path) is not None


def foreign_files(path: Path) -> list[str]:
    """The files in a bundle's folder that EdgeKit did not put there, relative to it."""
    listed = {*UNLISTED, *(listed_files(path) or ())}
    present = (file.relative_to(path).as_posix() for file in sorted(path.rglob("*")) if not _is_folder(file))
    return [file for file in present if file not in listed]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


Canonical = Callable[[Path], bytes | None]
"""Returns a file's content in the bytes that its writer gives it; None if other bytes always mean other content."""


def check_integrity(bundle: Bundle, canonical: Canonical | None = None) -> None:
    """Compares every file with its size and SHA-256 in the manifest.

    Args:
        bundle: The bundle.
        canonical: Called for each changed file, since tools that open a model may write it again in other bytes.

    Raises:
        RequirementError: Files are changed, missing or new; all of them are named.
    """
    recorded = {record["path"]: record for record in bundle.manifest["files"]}
    present = {record["path"]: record for record in file_records(bundle.path) if record["path"] not in UNLISTED}
    missing = [path for path in recorded if path not in present]
    changed = [
        path
        for path in recorded
        if path in present
        and recorded[path] != present[path]
        and not _holds_the_same(bundle, recorded[path], canonical)
    ]
    pointers = {path for path in changed if lfs.is_pointer(bundle.path / path)}
    converted = {path for path in changed if has_other_line_ends(bundle.path / path, recorded[path]["sha256"])}
    new = [path for path in present if path not in recorded and not _is_left_by_system(bundle.path, path)]
    flaws = [f"{path} is missing" for path in missing]
    flaws += [
        f"{path} is a Git LFS pointer"
        if path in pointers
        else f"{path} has CRLF line ends in place of LF"
        if path in converted
        else f"{path} is changed"
        for path in changed
    ]
    flaws += [f"{path} is not in the manifest" for path in sorted([*new, *_no_files(bundle.path)])]
    if not flaws:
        return
    if pointers:
        hint = f"fetch the files themselves with {lfs.FETCHING}"
    elif converted and len(converted) == len(flaws):
        hint = f"git converts line ends where core.autocrlf is set: {KEEPING}"
    elif len(flaws) > len(missing) + len(changed):
        hint = "remove what was put into it, or package the model again"
    else:
        hint = "copy the whole bundle again, or package the model again"
    raise RequirementError(
        "the bundle is not as it was written",
        subject=bundle.path,
        expected="the files and SHA-256 sums of its manifest",
        found="; ".join(flaws),
        hint=hint,
    )


def _is_left_by_system(folder: Path, path: str) -> bool:
    """Whether Windows or macOS put a file there. A link is no such file: it may lead anywhere."""
    return is_left_by_system(Path(path).parts) and not (folder / path).is_symlink()


def _no_files(folder: Path) -> list[str]:
    """Paths in ``folder`` that are neither a file nor a folder: links to folders or to nothing, pipes, sockets."""
    found = (entry for entry in folder.rglob("*") if not entry.is_file() and not _is_folder(entry))
    return [entry.relative_to(folder).as_posix() for entry in found]


def _holds_the_same(bundle: Bundle, record: Mapping[str, Any], canonical: Canonical | None) -> bool:
    """Whether a changed file still has its recorded content, in other bytes."""
    data = None if canonical is None else canonical(bundle.path / record["path"])
    return data is not None and hashlib.sha256(data).hexdigest() == record["sha256"]


def validate_manifest(manifest: Mapping[str, Any]) -> None:
    """Checks a manifest that is about to be written.

    Raises:
        InternalError: It is not what the schema describes, or has no times.
    """
    flaw = find_flaw(manifest, SCHEMA_FILE)
    absent = without_times(manifest)
    if flaw is None and absent is not None:
        flaw = f"no time for {absent}"
    if flaw is not None:
        raise InternalError(f"the manifest breaks its own schema: {flaw}", subject=MANIFEST)


def validate_graph(graph: Mapping[str, Any]) -> None:
    """Checks a graph that is about to be written.

    Raises:
        InternalError: It is not what the schema describes.
    """
    flaw = find_flaw(graph, GRAPH_SCHEMA_FILE)
    if flaw is not None:
        raise InternalError(f"the graph breaks its own schema: {flaw}", subject=GRAPH)


def file_records(folder: Path) -> list[dict[str, Any]]:
    """Path (relative, forward slashes), bytes and SHA-256 of every file below ``folder``, in the order of the paths."""
    return [file_record(file, folder) for file in sorted(folder.rglob("*")) if file.is_file()]


def file_record(file: Path, folder: Path) -> dict[str, Any]:
    """Path relative to ``folder``, bytes and SHA-256 of one file."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"path": file.relative_to(folder).as_posix(), "bytes": file.stat().st_size, "sha256": digest}


def feature_record(feature: Feature) -> dict[str, Any]:
    """A feature as the manifest writes it."""
    return {
        "name": feature.name,
        "dtype": feature.dtype,
        "shape": list(feature.shape),
        "native_name": feature.native_name,
        "native_dtype": feature.native_dtype,
        "native_shape": list(feature.native_shape),
        **({"takes_nan": True} if feature.takes_nan else {}),
        **({} if feature.rows is None else {"rows": feature.rows}),
        **({} if feature.drawn is None else {"drawn": feature.drawn.as_record()}),
        **({} if feature.vocabulary is None else {"vocabulary": list(feature.vocabulary)}),
        **({"tokens": [rule.as_record() for rule in feature.tokens]} if feature.tokens else {}),
    }


def feature_from_record(record: Mapping[str, Any]) -> Feature:
    """The feature that :func:`feature_record` wrote."""
    shapes = {name: tuple(record[name]) for name in ("shape", "native_shape")}
    drawn = {"drawn": Draw.from_record(record["drawn"])} if "drawn" in record else {}
    words = {"vocabulary": tuple(record["vocabulary"])} if "vocabulary" in record else {}
    tokens = {"tokens": tuple(map(TokenRule.from_record, record["tokens"]))} if "tokens" in record else {}
    return Feature(**{**record, **shapes, **drawn, **words, **tokens})
