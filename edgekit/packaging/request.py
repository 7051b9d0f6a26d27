"""What to package, and checks that refuse an impossible request before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from edgekit.comparison.custom_metric import Evaluation
from edgekit.data.digest import samples_digest
from edgekit.data.labels import read_class_names
from edgekit.data.sample_lists import SampleList
from edgekit.data.tables import Table
from edgekit.devices.instruction_set import require_executable
from edgekit.errors import InputError
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.features.dimensions import default_size, without_empty, written
from edgekit.features.suppression import Suppression
from edgekit.fingerprint import data_files, fingerprint, model_files
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.packaging.candidates import Choice
from edgekit.packaging.float_form import AUTO, FLOAT32
from edgekit.preprocessing import Preprocessing
from edgekit.quantizer import require_search_of_sizes
from edgekit.registry import find_profile
from edgekit.stages.quantize import NONE, refused, require_scheme
from edgekit.suggestions import near_names
from edgekit.target import BuildOptions, Profile, Target

PRECISIONS = (AUTO, FLOAT32, "float16")


@dataclass(frozen=True)
class PackageRequest:
    """What to package, and how."""

    model: Path
    target: str
    """Name of a device profile."""
    output: Path
    """The bundle's folder."""
    name: str | None = None
    """The name in the bundle's manifest; None: the stem of the model's file."""
    data: Path | None = None
    """Samples to calibrate and verify on."""
    verify_data: Path | None = None
    """Samples to verify on in place of ``data``."""
    label: str | None = None
    """The column that holds the class, if samples are the rows of a table."""
    tables: Mapping[Path, Table | SampleList] = field(default_factory=dict)
    """Tables in memory, by the paths that stand for them as samples."""
    quantize: str | None = None
    """The quantization scheme; None: ``auto`` with data and without states, else ``none``."""
    quantizer: str | None = None
    """The name of the quantizer; None: the one that :func:`edgekit.registry.installed_quantizer` prefers."""
    like: Choice | None = None
    """The choice of an earlier bundle, to be repeated, since latencies decide anew each time; None: the best now."""
    max_drop: float | None = None
    floor_db: float | None = None
    """The SQNR in dB that outputs have to reach over all samples; None: a floor that suits the form that is built."""
    accept: bool = False
    """Whether a model that misses its floors still ships, marked as such in the manifest."""
    smallest: bool = False
    """Whether the smallest model that holds the budget is wanted, rather than the fastest."""
    max_bytes: int | None = None
    """Most bytes of the built model; None for any size."""
    instruction_sets: tuple[str, ...] | None = None
    """The instruction sets with which the built model has to hold its floors; None: the sets of the profile that this
    processor executes itself."""
    evaluation: Evaluation | None = None
    """The project's own measure of quality; see :mod:`edgekit.comparison.custom_metric`."""
    precision: str = "auto"
    shapes: ShapeRequest = field(default_factory=ShapeRequest)
    labels: Path | None = None
    """File with a class name a line."""
    preprocessing: Preprocessing | None = None
    shares_preprocessing: bool = False
    """Whether ``preprocessing`` is declared for several models: it is ignored for a model that it does not fit, unless
    samples need it."""
    outputs: DeclaredOutputs | None = None
    """What the outputs mean; None: what is recognized from the model."""
    postprocess: Suppression | None = None
    """How the built model suppresses a detector's boxes; None: it returns its outputs as they are."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Inputs that the built model is to keep from one run to the next, each with the output that replaces it."""
    target_options: Mapping[str, str] = field(default_factory=dict)
    """Options that targets define themselves, by name."""
    also: tuple[str, ...] = ()
    """Further device profiles: the bundle holds a build for each of them, too, and a device uses the build for it."""
    witness: str | None = None
    """Name of an installed witness, which executes what was built, if it can, and has to agree."""
    output_chosen_with: str = "-o"
    """The option with which the user chose ``output``, for hints."""

    @property
    def is_sized(self) -> bool:
        """Whether the size of the model decides, and not its speed."""
        return self.smallest or self.max_bytes is not None

    @property
    def scheme(self) -> str:
        """The quantization scheme."""
        if self.quantize is not None:
            return self.quantize
        return NONE if self.data is None or self.states else "auto"

    def options(self) -> dict[str, Any]:
        """The manifest's ``options``."""
        return {
            "quantize": self.scheme,
            "quantizer": self.quantizer,
            "max_drop": self.max_drop,
            "floor_db": self.floor_db,
            "accept": self.accept,
            "smallest": self.smallest,
            "max_bytes": self.max_bytes,
            "instruction_sets": None if self.instruction_sets is None else list(self.instruction_sets),
            "metric": None if self.evaluation is None else self.evaluation.name,
            "precision": self.precision,
            **self.shapes.as_record(),
            **({} if self.label is None else {"label": self.label}),
            "outputs": None if self.outputs is None else self.outputs.as_record(),
            **({} if self.postprocess is None else {"postprocess": self.postprocess.as_record()}),
            "states": dict(self.states),
            "target": dict(self.target_options),
            "also": list(self.also),
            "witness": self.witness,
        }

    def profiles(self) -> list[tuple[Target, Profile]]:
        """The targets and profiles to build for, the main one first.

        Raises:
            InputError: There is no profile of a name, or a profile is named twice.
        """
        found = [find_profile(self.target)]
        for name in self.also:
            target, profile = find_profile(name, flag="--also")
            if profile.name in {other.name for _, other in found}:
                raise InputError("is there already", subject=f"--also {name}", expected="another device profile")
            found.append((target, profile))
        return found

    def precisions(self, target: Target, profile: Profile) -> tuple[Sequence[str], Sequence[str]]:
        """The precisions in which a float model is tried, in order, and those for the rest of a quantized model."""
        automatic = self.precision == AUTO
        if self.scheme == "auto":
            return target.float_precisions(profile) if automatic else (self.precision,), (self.precision,)
        turns = (AUTO, FLOAT32) if automatic else (self.precision,)
        return (turns, ()) if self.scheme == NONE else ((), turns)

    def fingerprint(self) -> str:
        """A hash over everything that the bundle depends on; see :mod:`edgekit.fingerprint`.

        Raises:
            InputError: The model, a file of its data or the list of class names is missing, or is no such file.
        """
        files = {f"model/{file.name}": file for file in model_files(self.model)}
        for key, folder in (("data", self.data), ("verify_data", self.verify_data)):
            files |= {f"{key}/{name}": file for name, file in (data_files(folder) if folder else {}).items()}
        if self.labels is not None:
            read_class_names(self.labels)  # raises an error if the file is wrong
            files["labels"] = self.labels
        if self.evaluation is not None and self.evaluation.file is not None:
            files["metric"] = self.evaluation.file
        declared = None if self.preprocessing is None else self.preprocessing.as_record()
        named = [[target.name, profile.name] for target, profile in self.profiles()]
        return fingerprint(files, {**self.options(), "name": self.name, "targets": named, "preprocessing": declared})

    def samples(self) -> dict[str, str | None]:
        """The hash of the samples by the option that named them; None for samples that are not files here."""
        given = {"data": self.data, "verify_data": self.verify_data}
        return {key: samples_digest(place) for key, place in given.items() if place is not None}

    def own_options(self, target: Target) -> dict[str, str]:
        """The options of the request that the target defines."""
        return {name: value for name, value in self.target_options.items() if name in target.options}


def require_possible(request: PackageRequest, profiles: Sequence[tuple[Target, Profile]]) -> None:
    """Checks everything that can be checked before the model is loaded.

    Raises:
        InputError: The request does not fit one of the profiles, or has a value that nothing takes.
    """
    for target, profile in profiles:
        _require_fitting(request, target, profile)
    targets = [target for target, _ in profiles]
    require_options(request.target_options, *targets)
    if request.precision not in PRECISIONS:
        raise InputError(
            "unknown type", subject="--precision", expected=" | ".join(PRECISIONS), found=request.precision
        )
    for target in targets:
        target.require_options(BuildOptions(options=request.own_options(target)), None)


def require_options(options: Mapping[str, str], *targets: Target) -> None:
    """Checks the names of the targets' own options.

    Raises:
        InputError: None of the targets has an option of a given name.
    """
    known = {name: what for target in targets for name, what in target.options.items()}
    for name in options:
        if name not in known:
            verb = "has" if len(targets) == 1 else "have"
            raise InputError(
                f"target {' and '.join(target.name for target in targets)} {verb} no such option",
                subject=f"--option {name}",
                expected=near_names(name, known) if known else "no options",
                hint="`edgekit targets --json` tells what each does" if known else None,
            )


def require_open_dimensions(shapes: ShapeRequest, target: Target, profile: Profile) -> None:
    """Checks that the target takes dimensions of several sizes, and the size 0, if the request asks for them.

    Raises:
        InputError: The target does not take them.
    """
    if shapes.open_dims and not target.takes_open_dimensions(profile):
        name, sizes = next(iter(shapes.open_dims.items()))
        raise InputError(
            f"{profile.name} takes fixed shapes only",
            subject=f"--dim {name}={written(sizes)}",
            expected="one size",
            hint=f"fix it with --dim {quote(name)}={default_size(sizes)}, or make a bundle for each size",
        )
    empty = next((name for name, sizes in shapes.open_dims.items() if 0 in sizes), None)
    if empty is not None and not target.takes_empty_dimensions(profile):
        sizes = shapes.open_dims[empty]
        other_sizes = quote(f"{empty}={written(without_empty(sizes))}")
        raise InputError(
            f"{profile.name} takes an empty input only where it always is empty",
            subject=f"--dim {empty}={written(sizes)}",
            expected="sizes from 1",
            hint=f"make two bundles, with --dim {other_sizes} and with --dim {quote(empty)}=0",
        )


def _require_fitting(request: PackageRequest, target: Target, profile: Profile) -> None:
    """Checks without any work that the request fits a profile.

    Raises:
        InputError: The request does not fit the profile.
    """
    target.require_installed(profile)
    require_scheme(
        request.scheme,
        target.weight_schemes(profile),
        available=request.data is not None,
        refused=refused(target, profile),
        quantizer=request.quantizer,
    )
    _require_searched(request)
    require_open_dimensions(request.shapes, target, profile)
    _require_states(request, target, profile)
    require_executable(request.instruction_sets, target, profile)


def _require_searched(request: PackageRequest) -> None:
    """Checks that a request for a small model searches for its size.

    A request that only limits the size may name any scheme or have states instead: the size is then only checked.

    Raises:
        InputError: The request does not search for a size.
    """
    named = None if request.quantize in (None, "auto") else request.scheme
    only_checked = not request.smallest and (request.quantize is not None or bool(request.states))
    if request.is_sized and not only_checked:
        sampled = request.data is not None
        require_search_of_sizes(
            named or "auto", sampled=sampled, smallest=request.smallest, max_bytes=request.max_bytes
        )


def _require_states(request: PackageRequest, target: Target, profile: Profile) -> None:
    """Checks that the target can keep states, if the request has any.

    Raises:
        InputError: The target has no states, or the scheme needs samples, which hold no states.
    """
    if not request.states:
        return
    flag = "--state " + next("=".join(pair) for pair in request.states.items())
    if not target.takes_states(profile):
        raise InputError(
            f"{profile.name} has no states",
            subject=flag,
            hint="leave --state out, in a project file by `states = {}` in "
            "[bundle.overrides.TARGET]: the app then feeds the states, as the original model has it",
        )
    own = target.weight_schemes(profile)
    if request.scheme not in (NONE, *own):
        raise InputError(
            "a model with states cannot be calibrated: the samples hold no states",
            subject=f"--quantize {request.scheme}",
            expected=" | ".join((NONE, *own)),
            hint=f"{', '.join(own)}: these store weights alone, which needs no samples"
            if own
            else "leave --state out: the app then feeds the states, and samples of all inputs calibrate the model",
        )
