"""Reads ``edgekit.toml``: the bundles that a project ships, how its data is prepared, and what a bundle may cost."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from edgekit.config.budget import Budget, check_shares
from edgekit.config.matrix import BUNDLES_FOLDER, completed_bundles
from edgekit.config.values import parse_max_drop
from edgekit.data.labels import CONFIG_FILE
from edgekit.errors import InputError
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.features.suppression import Suppression
from edgekit.files.missing import is_named
from edgekit.files.regular_file import read_text, real_path
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.preprocessing import Preprocessing, parse_preprocessing
from edgekit.schema import find_flaw, not_finite
from edgekit.suggestions import near_names

TIME_LIMIT = 60.0
"""Seconds after which the gate ends a measurement although its answer is not clear."""


class Inconclusive(StrEnum):
    """The gate's verdict on a bundle whose measured latency gives no clear answer."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class GateSettings:
    """How the gate judges."""

    inconclusive: Inconclusive = Inconclusive.WARN
    time_limit: float = TIME_LIMIT
    """Seconds that one measurement may take."""
    baseline: Path | None = None
    """File with the figures of an earlier build."""
    device: str | None = None
    """URL of the device on which milliseconds and memory are measured; None: this machine."""


@dataclass(frozen=True)
class DeclaredBundle:
    """One bundle of the project: a ``[[bundle]]`` for one target. Relative paths are joined to the file's folder."""

    name: str
    model: Path
    target: str
    output: Path
    budget: Budget
    file: Path
    """The project file."""
    folder: Path
    """The folder of the project file."""
    data: Path | None = None
    verify_data: Path | None = None
    label: str | None = None
    """The column that holds the class, if the data are tables."""
    labels: Path | None = None
    preprocessing: Preprocessing | None = None
    shares_preprocessing: bool = False
    """Whether ``preprocessing`` is declared for the whole file, so that some bundles may have no use for it."""
    outputs: DeclaredOutputs | None = None
    """What the project file declares of the outputs."""
    quantize: str | None = None
    quantizer: str | None = None
    max_drop: float | None = None
    floor: float | None = None
    """The least SQNR in dB of the outputs over all samples."""
    accept: bool = False
    """Whether the bundle ships although outputs miss their floors."""
    metric: str | None = None
    """The evaluation function, ``MODULE:FUNCTION``; its module is searched for beside the project file first."""
    precision: str = "auto"
    shapes: ShapeRequest = field(default_factory=ShapeRequest)
    postprocess: Suppression | None = None
    """How the built model suppresses a detector's boxes; None if it does not."""
    states: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    """Values of the targets' own options, by name."""
    also: tuple[str, ...] = ()
    """Further device profiles that the bundle holds a build for."""
    witness: str | None = None
    """The witness that also executes the built model."""
    device: str | None = None
    """URL of the device on which the gate measures milliseconds and memory; None: as the file's ``[gate]`` says."""
    declared_as: str = ""
    """The name in the ``[[bundle]]``, which the bundles of several targets share."""
    output_chosen_with: str = "`output` in the project file"
    """The option or key that chooses ``output``, for hints."""


@dataclass(frozen=True)
class Config:
    """A project file."""

    path: Path
    preprocessing: Preprocessing | None
    budget: Budget
    bundles: tuple[DeclaredBundle, ...]
    gate: GateSettings = GateSettings()
    outputs: DeclaredOutputs | None = None

    def preprocessing_of(self, model: Path | None) -> Preprocessing | None:
        """The preprocessing for a model: that of its bundle if the project has one, else that of the whole file."""
        bundle = self._bundle_of(model)
        return self.preprocessing if bundle is None else bundle.preprocessing

    def shares_preprocessing(self, model: Path | None) -> bool:
        """Whether the preprocessing for a model is the one that the file declares for all its bundles."""
        bundle = self._bundle_of(model)
        return bundle is None or bundle.shares_preprocessing

    def outputs_of(self, model: Path | None) -> DeclaredOutputs | None:
        """What is declared of a model's outputs: by its bundle if the project has one, else for the whole file."""
        bundle = self._bundle_of(model)
        return self.outputs if bundle is None else bundle.outputs

    def _bundle_of(self, model: Path | None) -> DeclaredBundle | None:
        """The first bundle that is made from the model; None if there is none."""
        place = None if model is None else real_path(model)
        return next((bundle for bundle in self.bundles if real_path(bundle.model) == place), None)

    def only(self, names: Sequence[str]) -> Config:
        """The project with only the bundles of these names; a name may be shared by the bundles of several targets.

        Raises:
            InputError: No bundle has one of the names.
        """
        known = {name for one in self.bundles for name in (one.name, one.declared_as)}
        for name in names:
            if name not in known:
                raise InputError(
                    "declares no such bundle", subject=self.path, expected=near_names(name, sorted(known)), found=name
                )
        wanted = tuple(one for one in self.bundles if not {one.name, one.declared_as}.isdisjoint(names))
        return replace(self, bundles=wanted)

    def in_folder(self, folder: Path) -> Config:
        """The project with every bundle in the folder under its name, whatever ``output`` says."""
        moved = tuple(replace(one, output=folder / one.name, output_chosen_with="--output-dir") for one in self.bundles)
        return replace(self, bundles=moved)

    def declared(self, bundle: Path, name: str) -> DeclaredBundle | None:
        """The declaration of a bundle, by its folder or else by its name; None if the project does not declare it."""
        place = real_path(bundle)
        fitting = [declared for declared in self.bundles if real_path(declared.output) == place]
        fitting += [declared for declared in self.bundles if declared.name == name]
        return fitting[0] if fitting else None


def _hint_for_escapes(path: Path, error: str) -> str | None:
    """The hint for a Windows path in double quotes; None if the faulty line has no backslash in double quotes."""
    match = re.search(r"at line (\d+)", error)
    lines = read_text(path).splitlines()
    line = lines[int(match[1]) - 1] if match is not None and int(match[1]) <= len(lines) else ""
    if not re.search(r'"[^"]*\\', line):
        return None
    return "a backslash in double quotes begins an escape: write / between folders, or put the path in single quotes"


def read_config(path: Path) -> Config:
    """The project file at ``path``.

    Raises:
        InputError: The file is missing, is not TOML, or is not what ``config.schema.json`` describes.
    """
    if not path.exists():
        raise InputError("there is no project file", subject=path, hint="`--config FILE` names another")
    try:
        document = tomllib.loads(read_text(path))
    except RecursionError as error:
        raise InputError("is not TOML that can be read: it is nested too deeply", subject=path) from error
    except ValueError as error:  # TOMLDecodeError, and what Python says of integers with thousands of digits
        raise InputError(f"is not TOML: {error}", subject=path, hint=_hint_for_escapes(path, str(error))) from error
    try:
        flaw = not_finite(document)
        if flaw is None:
            check_shares(_budgets(document), path)
            flaw = find_flaw(document, "config.schema.json")
    except RecursionError as error:
        raise InputError("cannot be used: it is nested too deeply", subject=path) from error
    if flaw is not None:
        raise InputError(
            "cannot be used",
            subject=path,
            found=_by_name(flaw, document),
            hint="EdgeKit's config.schema.json describes every key",
        )
    preprocessing, outputs = _preprocessing(document, path, None), _outputs(document, path, None)
    budget = Budget.parse(document.get("budget", {}), f"{path} [budget]")
    tables = completed_bundles(document, path)
    bundles = tuple(_bundle(table, path, preprocessing, outputs, budget) for table in tables)
    _require_different([bundle.name for bundle in bundles], "name", path)
    places = [real_path(bundle.output) for bundle in bundles]
    _require_different(places, "output", path)
    _require_apart(places, path)
    return Config(path, preprocessing, budget, bundles, _gate(document.get("gate", {}), path.parent), outputs)


def _by_name(flaw: str, document: Mapping[str, Any]) -> str:
    """The text of a flaw, with the bundle's name, if it has one, in place of its number from 0."""
    place = re.match(r"bundle\[(\d+)\]\.?", flaw)
    table = document["bundle"][int(place[1])] if place else None
    name = table.get("name") if isinstance(table, dict) else None
    return f"bundle {name!r} {flaw[place.end() :]}" if place and isinstance(name, str) and name else flaw


def _require_different(values: Sequence[object], what: str, path: Path) -> None:
    """Refuses equal names or folders, also those that differ only in case, which are one on macOS and Windows."""
    texts = [unicodedata.normalize("NFC", str(value)) for value in values]
    folded = [text.casefold() for text in texts]
    for place, text in enumerate(texts):
        first = folded.index(folded[place])
        if first == place:
            continue
        if texts[first] == text:
            raise InputError(f"two bundles have the same {what}", subject=path, found=values[place])
        raise InputError(
            f"two bundles have {what}s that differ in capital letters alone",
            subject=path,
            found=f"{values[first]} and {values[place]}",
            hint="they are one folder on macOS and Windows",
        )


def _require_apart(places: Sequence[Path], path: Path) -> None:
    """Refuses a bundle in the folder of another one, which would then hold files that do not belong to it."""
    inside = next(((one, other) for one in places for other in places if other in one.parents), None)
    if inside is not None:
        raise InputError(
            "a bundle lies in the folder of another one",
            subject=path,
            found=f"{inside[0]} in {inside[1]}",
            hint="give each an `output` of its own",
        )


def find_config(start: Path) -> Path | None:
    """The nearest ``edgekit.toml`` in ``start`` or the folders above it; None if there is none."""
    start = real_path(start)
    return next((file for folder in (start, *start.parents) if is_named(file := folder / CONFIG_FILE)), None)


@dataclass(frozen=True)
class Declared:
    """What a project file declares for a model, whether or not it declares a bundle of the model."""

    preprocessing: Preprocessing | None = None
    outputs: DeclaredOutputs | None = None
    shares_preprocessing: bool = False
    """Whether the preprocessing is declared for all bundles of the file."""


def declared_for(model: Path | None, data: Path | None, config: Path | None) -> Declared:
    """How a data folder's pictures or sounds become a model's input, and what is declared of its outputs.

    Args:
        model: The ONNX file.
        data: The folder of samples.
        config: The project file; None: the nearest to ``data``, if that is given.

    Raises:
        InputError: The project file cannot be used.
    """
    path = config or (find_config(data) if data is not None else None)
    if path is None:
        return Declared()
    found = read_config(path)
    return Declared(found.preprocessing_of(model), found.outputs_of(model), found.shares_preprocessing(model))


def _bundle(
    table: Mapping[str, Any],
    path: Path,
    preprocessing: Preprocessing | None,
    outputs: DeclaredOutputs | None,
    budget: Budget,
) -> DeclaredBundle:
    values = dict(table)
    folder = path.parent
    for key in ("model", "data", "verify_data", "labels"):
        if key in values:
            values[key] = folder / values[key]
    values["file"], values["folder"] = path, real_path(folder)
    values["output"] = folder / values.get("output", f"{BUNDLES_FOLDER}/{values['name']}")
    for own in reversed(values.pop("budgets")):
        budget = Budget.parse(own, f"{path} bundle {values['name']} budget").over(budget)
    values["budget"] = budget
    values["preprocessing"] = _preprocessing(table, path, preprocessing)
    values["shares_preprocessing"] = "preprocessing" not in table
    values["outputs"] = _outputs(table, path, outputs)
    if "max_drop" in values:
        values["max_drop"] = parse_max_drop(values["max_drop"], f"{path} max_drop")
    if "postprocess" in values:
        values["postprocess"] = Suppression.parse(values["postprocess"], f"{path} postprocess")
    values["also"] = tuple(values.get("also", ()))
    values["shapes"] = ShapeRequest.declared(
        values.pop("dims", {}), values.get("shapes", {}), f"{path} bundle {values['name']} dims"
    )
    return DeclaredBundle(**values)


def _gate(table: Mapping[str, Any], folder: Path) -> GateSettings:
    values = dict(table)
    if "inconclusive" in values:
        values["inconclusive"] = Inconclusive(values["inconclusive"])
    if "baseline" in values:
        values["baseline"] = folder / values["baseline"]
    return GateSettings(**values)


def _preprocessing(table: Mapping[str, Any], path: Path, default: Preprocessing | None) -> Preprocessing | None:
    declared = table.get("preprocessing")
    if declared is False:
        return None
    return default if declared is None else parse_preprocessing(declared, f"{path} [preprocessing]")


def _outputs(table: Mapping[str, Any], path: Path, default: DeclaredOutputs | None) -> DeclaredOutputs | None:
    declared = table.get("outputs")
    return default if declared is None else DeclaredOutputs.parse(declared, f"{path} [outputs]")


def _budgets(document: Mapping[str, Any]) -> Iterator[object]:
    """The ``budget`` tables of a document that is not checked yet: of the file, defaults, bundles and overrides."""
    bundles = document.get("bundle", ())
    tables = [document, document.get("defaults"), *(bundles if isinstance(bundles, list) else ())]
    for table in tables:
        if isinstance(table, dict):
            yield table.get("budget")
            overrides = table.get("overrides")
            for override in overrides.values() if isinstance(overrides, dict) else ():
                yield override.get("budget") if isinstance(override, dict) else None
