"""Reads ``edgekit.toml``: the bundles that a project ships, how its data is prepared, and what a bundle may cost."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from edgekit.data.labels import CONFIG_FILE
from edgekit.errors import InputError
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.files.regular_file import read_text, real_path
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.preprocessing import Preprocessing, parse_preprocessing
from edgekit.schema import find_flaw, not_finite

BUNDLES_FOLDER = "bundles"
"""Where bundles go whose ``output`` is not declared, beside ``edgekit.toml``."""

TIME_LIMIT = 60.0
"""Seconds after which the gate ends a measurement although its answer is not clear."""

_LEAST_DOUBTFUL_LOSS = 0.5
_LEAST_MEMORY = 10_000
"""A process has more than a page or two; fewer bytes were meant as megabytes."""
_DROP = "would allow {:.0%} of the samples to be lost"
_GROWTH = "would allow {:.0%} more"
_LOSSES = {"accuracy_drop": _DROP, "accuracy_fall": _DROP, "size_growth": _GROWTH, "latency_growth": _GROWTH}
"""The budgets that say what may be lost, and what a surprisingly great share would allow."""
_TARGETS = {"target", "targets"}
_OWN_KEYS = {"name", "output", "preprocessing", "outputs", "budget"}
"""What a bundle does not get from ``[defaults]``."""
_PREFIXES = ("", "k", "m", "g")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmg])(i?))?b?", re.ASCII | re.IGNORECASE)
SIZES = "'2.5 MB' (B; kB, MB, GB of 1000; KiB, MiB, GiB of 1024)"
"""How a number of bytes is written, for errors."""


@dataclass(frozen=True)
class Budget:
    """What a bundle may cost and must reach; None where nothing is asked."""

    size: int | None = None
    """Most bytes."""
    accuracy: float | None = None
    """Least share of labels found."""
    accuracy_drop: float | None = None
    """Most that may be lost of it to the float model, absolute."""
    sqnr_db: float | None = None
    """Least SQNR of the worst output."""
    latency_ratio: float | None = None
    """Most time, as a multiple of the float model's."""
    latency_ms: float | None = None
    """Most milliseconds of a run on the device."""
    first_run_ms: float | None = None
    """Most milliseconds of the first run after loading."""
    load_ms: float | None = None
    """Most milliseconds from the model's file to a session that is ready."""
    memory: int | None = None
    """Most bytes of the process that executes it on the device."""
    download: int | None = None
    """Most bytes of what the device loads, compressed as an app's download is."""
    accelerator_share: float | None = None
    """Least share of the nodes that the device's accelerator runs."""
    partitions: int | None = None
    """Most pieces that the model falls into on the device."""
    size_growth: float | None = None
    """Most growth of the size over the baseline, relative."""
    accuracy_fall: float | None = None
    """Most that may be lost of the accuracy to the baseline, absolute."""
    latency_growth: float | None = None
    """Most growth of the latency over the earlier bundle, relative."""
    agreement_db: float | None = None
    """Least SQNR to the golden outputs of the earlier bundle."""

    @classmethod
    def parse(cls, table: Mapping[str, Any], subject: object) -> Budget:
        """The budget that a valid table holds.

        Raises:
            InputError: A share of what may be lost was surely meant as a percentage, or a number of bytes as one of
                megabytes. ``subject`` is where it stands.
        """
        readers: dict[str, Callable[[Any], Any]] = {
            "size": parse_bytes,
            "accuracy": parse_fraction,
            "sqnr_db": float,
            "agreement_db": float,
            "latency_ratio": float,
            **dict.fromkeys(("latency_ms", "first_run_ms", "load_ms"), float),
            **dict.fromkeys(("memory", "download"), parse_bytes),
            "accelerator_share": parse_fraction,
            "partitions": int,
        }
        read: dict[str, Any] = {key: readers[key](value) for key, value in table.items() if key in readers}
        if "memory" in read and read["memory"] < _LEAST_MEMORY:
            raise InputError(
                "is less than any process takes",
                subject=f"{subject} memory",
                expected='bytes, or a text such as "80 MB"',
                found=table["memory"],
            )
        for key, would_allow in _LOSSES.items():
            if key in table:
                read[key] = parse_loss(table[key], f"{subject} {key}", would_allow)
        return cls(**read)

    def over(self, other: Budget) -> Budget:
        """This budget, and the other's where this one asks nothing."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        return Budget(**{key: getattr(other, key) if value is None else value for key, value in mine.items()})


class Inconclusive(StrEnum):
    """What becomes of a bundle whose latency was measured and whose answer is not clear."""

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
    """Figures of an earlier build."""
    device: str | None = None
    """URL of where milliseconds and memory are measured; None: this machine."""


@dataclass(frozen=True)
class DeclaredBundle:
    """One ``[[bundle]]`` of the project; paths are complete."""

    name: str
    model: Path
    target: str
    output: Path
    budget: Budget
    file: Path
    """The project file."""
    folder: Path
    """Where it lies."""
    data: Path | None = None
    verify_data: Path | None = None
    labels: Path | None = None
    preprocessing: Preprocessing | None = None
    shares_preprocessing: bool = False
    """Whether it is that of the whole file, which some of the bundles may take no samples for."""
    outputs: DeclaredOutputs | None = None
    """What the outputs tell."""
    quantize: str | None = None
    quantizer: str | None = None
    max_drop: float | None = None
    floor: float | None = None
    """The SQNR in dB that outputs have to reach over all samples."""
    accept: bool = False
    """Whether what misses its floors ships."""
    metric: str | None = None
    """The evaluation function, ``MODULE:FUNCTION``; its module is looked for beside the project file first."""
    precision: str = "auto"
    shapes: ShapeRequest = field(default_factory=ShapeRequest)
    states: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the targets' own."""
    also: tuple[str, ...] = ()
    """Further device profiles that the bundle holds a build for."""
    witness: str | None = None
    """The witness that executes what was built too."""
    declared_as: str = ""
    """The name in the ``[[bundle]]``, which several targets have in common."""


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
        """How data become the model's input: as its bundle declares, where the model is one of the project's."""
        bundle = self._bundle_of(model)
        return self.preprocessing if bundle is None else bundle.preprocessing

    def shares_preprocessing(self, model: Path | None) -> bool:
        """Whether that is what the file declares for all its bundles, and for models that are none of them."""
        bundle = self._bundle_of(model)
        return bundle is None or bundle.shares_preprocessing

    def outputs_of(self, model: Path | None) -> DeclaredOutputs | None:
        """What the model's outputs tell: as its bundle declares, where the model is the project's."""
        bundle = self._bundle_of(model)
        return self.outputs if bundle is None else bundle.outputs

    def _bundle_of(self, model: Path | None) -> DeclaredBundle | None:
        """The first bundle that is made from the model."""
        place = None if model is None else real_path(model)
        return next((bundle for bundle in self.bundles if real_path(bundle.model) == place), None)

    def declared(self, bundle: Path, name: str) -> DeclaredBundle | None:
        """What is declared for a bundle: for its folder or, failing that, under its name; None if nothing is."""
        place = real_path(bundle)
        fitting = [declared for declared in self.bundles if real_path(declared.output) == place]
        fitting += [declared for declared in self.bundles if declared.name == name]
        return fitting[0] if fitting else None


def read_config(path: Path) -> Config:
    """The project file at ``path``.

    Raises:
        InputError: It is missing, is no TOML, or is not what ``config.schema.json`` describes.
    """
    if not path.exists():
        raise InputError("there is no project file", subject=path, hint="`--config FILE` names another")
    try:
        document = tomllib.loads(read_text(path))
    except RecursionError as error:
        raise InputError("is not TOML that can be read: it is nested too deeply", subject=path) from error
    except ValueError as error:  # TOMLDecodeError, and what Python says of integers with thousands of digits
        raise InputError(f"is not TOML: {error}", subject=path) from error
    try:
        flaw = not_finite(document)
        if flaw is None:
            _check_shares(document, path)
            flaw = find_flaw(document, "config.schema.json")
    except RecursionError as error:
        raise InputError("cannot be used: it is nested too deeply", subject=path) from error
    if flaw is not None:
        raise InputError(
            "cannot be used", subject=path, found=flaw, hint="EdgeKit's config.schema.json describes every key"
        )
    preprocessing, outputs = _preprocessing(document, path, None), _outputs(document, path, None)
    budget = Budget.parse(document.get("budget", {}), f"{path} [budget]")
    tables = _completed_bundles(document, path)
    bundles = tuple(_bundle(table, path, preprocessing, outputs, budget) for table in tables)
    for what in ("name", "output"):
        values = [getattr(bundle, what) for bundle in bundles]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise InputError(f"two bundles have the same {what}", subject=path, found=twice)
    return Config(path, preprocessing, budget, bundles, _gate(document.get("gate", {}), path.parent), outputs)


def find_config(start: Path) -> Path | None:
    """The nearest ``edgekit.toml`` in ``start`` or the folders above it; None where there is none."""
    start = real_path(start)
    return next((file for folder in (start, *start.parents) if (file := folder / CONFIG_FILE).is_file()), None)


@dataclass(frozen=True)
class Declared:
    """What a project file says of a model, whether or not it declares bundles."""

    preprocessing: Preprocessing | None = None
    outputs: DeclaredOutputs | None = None
    shares_preprocessing: bool = False
    """Whether the preprocessing is declared for all bundles of the file."""


def declared_for(model: Path | None, data: Path | None, config: Path | None) -> Declared:
    """How a data folder's pictures or sounds become a model's input, and what its outputs tell.

    Args:
        model: The ONNX file.
        data: The folder of samples.
        config: The project file; None: the nearest to the data.

    Raises:
        InputError: The project file cannot be used.
    """
    path = config or (find_config(data) if data is not None else None)
    if path is None:
        return Declared()
    found = read_config(path)
    return Declared(found.preprocessing_of(model), found.outputs_of(model), found.shares_preprocessing(model))


def parse_fraction(value: float | str) -> float:
    """A share written as a number from 0 to 1 or as a text such as ``1%`` or ``0.01``.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, str) and value.rstrip().endswith("%"):
        number = float(value.rstrip()[:-1]) / 100
    else:
        number = float(value)
    if not 0 <= number <= 1:
        raise ValueError("a share lies between 0 and 1, or 0% and 100%")
    return number


def parse_max_drop(value: float | str, subject: object) -> float:
    """The accuracy that may be lost, as a fraction; half of it or more has to be written with a percent sign.

    Raises:
        InputError: It is no share, or a number that was surely meant as a percentage. ``subject`` is where it stands.
    """
    return parse_loss(value, subject, _DROP)


def parse_loss(value: float | str, subject: object, would_allow: str) -> float:
    """A share of something that may be lost; half of it or more has to be written with a percent sign.

    Args:
        value: As it was written.
        subject: Where it stands.
        would_allow: What a share allows, with a place for it.

    Raises:
        InputError: It is no share, or a number that was surely meant as a percentage.
    """
    try:
        share = parse_fraction(value)
    except ValueError as error:
        raise _no_share(value, subject) from error
    mark = "" if isinstance(value, str) else '"'  # what is no text stands in a project file, where a text is quoted
    if share >= _LEAST_DOUBTFUL_LOSS and not str(value).rstrip().endswith("%"):
        raise InputError(
            would_allow.format(share),
            subject=subject,
            expected=f"a number below {_LEAST_DOUBTFUL_LOSS}, or a percentage",
            found=value,
            hint=f"{share:g}% is written {mark}{share:g}%{mark}; "
            f"where {share:.0%} is meant, write {mark}{share:.0%}{mark}",
        )
    return share


def _no_share(value: object, subject: object, hint: str | None = None) -> InputError:
    return InputError(
        "is no share", subject=subject, expected="a number from 0 to 1, or from 0% to 100%", found=value, hint=hint
    )


def parse_bytes(value: int | str) -> int:
    """A number of bytes written as a number or as a text such as ``2.5 MB``, ``10k``, ``3 MiB`` or ``300``.

    1 MB and 1 M are 1,000,000 bytes, 1 MiB is 1,048,576; capital and small letters are the same.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, int):
        return value
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError(f"a size is a number of bytes, or a text such as {SIZES}")
    number, prefix, binary = match.groups()
    unit: int = (1024 if binary else 1000) ** _PREFIXES.index((prefix or "").lower())
    return round(float(number) * unit)


def _completed_bundles(document: Mapping[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """The tables of the bundles, completed by ``[defaults]``, one for each of their targets.

    Raises:
        InputError: A bundle has no model or no target, or both a target and several; or the defaults hold what is a
            bundle's own.
    """
    own = sorted(_OWN_KEYS & document.get("defaults", {}).keys())
    if own:
        raise InputError("belongs to a bundle or to the whole file", subject=f"{path} [defaults]", found=", ".join(own))
    for declared in document.get("bundle", ()):
        defaults = dict(document.get("defaults", {}))
        if _TARGETS & declared.keys():
            defaults = {key: value for key, value in defaults.items() if key not in _TARGETS}
        table = {**defaults, **declared}
        subject = f"{path} bundle {table['name']}"
        if "model" not in table:
            raise InputError("has no model", subject=subject, expected="model, in the bundle or in [defaults]")
        targets = _TARGETS & table.keys()
        if len(targets) != 1:
            what = "has target and targets" if targets else "has no target"
            expected = "one of them" if targets else "target or targets, in the bundle or in [defaults]"
            raise InputError(what, subject=subject, expected=expected)
        if "target" in table:
            yield {**table, "declared_as": table["name"]}
            continue
        for target in table.pop("targets"):
            output = table.get("output", f"{BUNDLES_FOLDER}/{table['name']}")
            yield {
                **table,
                "name": f"{table['name']}-{target}",
                "output": f"{output}-{target}",
                "target": target,
                "declared_as": table["name"],
            }


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
    values["budget"] = Budget.parse(values.get("budget", {}), f"{path} bundle {values['name']} budget").over(budget)
    values["preprocessing"] = _preprocessing(table, path, preprocessing)
    values["shares_preprocessing"] = "preprocessing" not in table
    values["outputs"] = _outputs(table, path, outputs)
    if "max_drop" in values:
        values["max_drop"] = parse_max_drop(values["max_drop"], f"{path} max_drop")
    values["also"] = tuple(values.get("also", ()))
    values["shapes"] = ShapeRequest.declared(values.pop("dims", {}), values.get("shapes", {}))
    return DeclaredBundle(**values)


def _gate(table: Mapping[str, Any], folder: Path) -> GateSettings:
    values = dict(table)
    if "inconclusive" in values:
        values["inconclusive"] = Inconclusive(values["inconclusive"])
    if "baseline" in values:
        values["baseline"] = folder / values["baseline"]
    return GateSettings(**values)


def _check_shares(document: Mapping[str, Any], path: Path) -> None:
    """Tells whoever wrote ``accuracy = 98`` how a percentage is written; the schema could only say what it is not.

    Raises:
        InputError: A share in a budget is a number above 1.
    """
    bundles = document.get("bundle", ())
    tables = [document, *(bundles if isinstance(bundles, list) else ())]
    budgets = [table.get("budget") for table in tables if isinstance(table, dict)]
    for budget in budgets:
        for key, value in budget.items() if isinstance(budget, dict) else ():
            if key in (*_LOSSES, "accuracy", "accelerator_share") and isinstance(value, int | float) and value > 1:
                raise _no_share(value, f"{path} {key}", f'{value:g}% is written "{value:g}%"')


def _preprocessing(table: Mapping[str, Any], path: Path, default: Preprocessing | None) -> Preprocessing | None:
    declared = table.get("preprocessing")
    if declared is False:
        return None
    return default if declared is None else parse_preprocessing(declared, f"{path} [preprocessing]")


def _outputs(table: Mapping[str, Any], path: Path, default: DeclaredOutputs | None) -> DeclaredOutputs | None:
    declared = table.get("outputs")
    return default if declared is None else DeclaredOutputs.parse(declared, f"{path} [outputs]")
