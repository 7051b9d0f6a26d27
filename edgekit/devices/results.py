"""Results of a device to which EdgeKit does not connect: a file that the bundle's own check wrote there.

The file is JSON::

    format            1
    manifest          the text of the manifest of the bundle that was run, which holds the SHA-256 of all its files
    profile           the device profile of the build that was run; absent if the bundle holds only one build
    executed_by       runtime, device, system and units, as the device says
    load_ms           from the model's file to a model that is ready
    samples           one per golden sample, in order:
      milliseconds      of one run
      outputs           one per output of the manifest, in order:
        name              the ONNX name
        values            the elements row by row, as 64-bit floats, little-endian, in Base64

EdgeKit judges the outputs when it reads the file, by the same floors as those of any other device.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.bundle import MANIFEST, Bundle
from edgekit.device import Device, Session, Timing
from edgekit.errors import InputError, RequirementError
from edgekit.files.regular_file import read_json
from edgekit.model import Arrays
from edgekit.schema import find_flaw

SCHEMA_FILE = "devices/results.schema.json"
MOST_SHOWN = 4
"""How many elements of an output an error shows."""


class ResultsDevice(Device):
    """A device that has run the bundle's check already.

    Args:
        file: The results file that it wrote.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def builds(self, bundle: Bundle) -> Sequence[Bundle]:
        """The build that the device ran.

        Raises:
            InputError: The file is missing or is no results file, or the bundle holds no such build.
        """
        profile = self._read().get("profile", bundle.profile_name)
        found = [build for build in bundle.builds if build.profile_name == profile]
        if not found:
            raise InputError(
                "these are the results of another bundle",
                subject=self._file,
                expected=", ".join(build.profile_name for build in bundle.builds),
                found=profile,
                hint="run the check of this very bundle on the device",
            )
        return found

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        """The results, if they are this bundle's.

        Raises:
            InputError: The file is missing, is no results file, or belongs to another bundle.
        """
        record = self._read()
        manifests = ((bundle.path / MANIFEST).read_bytes(), record["manifest"].encode(errors="surrogatepass"))
        if manifests[0] != manifests[1]:
            expected, found = (f"a {MANIFEST} with SHA-256 {sha256(text).hexdigest()}" for text in manifests)
            raise InputError(
                "these are the results of another bundle",
                subject=self._file,
                expected=expected,
                found=found,
                hint="run the check of this very bundle on the device",
            )
        yield ResultsSession(self._file, record, bundle)

    def _read(self) -> dict[str, Any]:
        record: dict[str, Any] = read_json(self._file)
        flaw = find_flaw(record, SCHEMA_FILE)
        if flaw is not None:
            raise InputError(
                "is not a results file",
                subject=self._file,
                expected="what the check of a bundle wrote on the device",
                found=flaw,
            )
        return record


class ResultsSession(Session):
    """Returns the recorded outputs of the golden samples, and cannot run other inputs.

    Args:
        file: The results file, for errors.
        record: The content of the file.
        bundle: The bundle that the results belong to.

    Raises:
        InputError: The samples or outputs in the file are not the bundle's.
    """

    def __init__(self, file: Path, record: Mapping[str, Any], bundle: Bundle) -> None:
        self._file = file
        self._record = record
        self._known: list[tuple[Arrays, Arrays]] = [
            (inputs, self._outputs(sample["outputs"], outputs))
            for sample, (inputs, outputs) in zip(record["samples"], self._golden(bundle), strict=True)
        ]
        self._next = 0

    @property
    def executed_by(self) -> str:
        """What executed the check, as the device said."""
        return str(self._record["executed_by"])

    def restart(self) -> None:
        """Begins again at the first golden sample."""
        self._next = 0

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for the inputs of a golden sample.

        If several golden samples have these inputs, as steps of a sequence may, it is the next of them.

        Raises:
            RequirementError: The inputs are not those of a golden sample.
        """
        for step in range(len(self._known)):
            place = (self._next + step) % len(self._known)
            inputs, outputs = self._known[place]
            if feeds.keys() == inputs.keys() and all(_same(feeds[name], inputs[name]) for name in inputs):
                self._next = place + 1
                return outputs
        raise RequirementError(
            "the results tell of the golden samples only", subject=self._file, hint="leave --data out"
        )

    def intermediates(self, sample: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays | None:
        """Always fails: the file holds only outputs.

        Raises:
            RequirementError: Always.
        """
        raise RequirementError(
            "the results tell of outputs only", subject=self._file, hint="leave --layers out, or use --device local"
        )

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """The times that the device measured: one run per golden sample, whatever the arguments are."""
        times = tuple(float(sample["milliseconds"]) for sample in self._record["samples"])
        return Timing(times, float(self._record["load_ms"]), None, {})

    def _golden(self, bundle: Bundle) -> list[tuple[Arrays, Arrays]]:
        golden = list(bundle.golden())
        if len(golden) != len(self._record["samples"]):
            raise self._foreign("golden samples", len(golden), len(self._record["samples"]))
        return golden

    def _outputs(self, recorded: list[Mapping[str, str]], golden: Arrays) -> Arrays:
        names = [output["name"] for output in recorded]
        if names != list(golden):
            raise self._foreign("outputs", ", ".join(golden), ", ".join(names))
        return {output["name"]: self._values(output, golden[output["name"]]) for output in recorded}

    def _values(self, output: Mapping[str, str], golden: np.ndarray) -> np.ndarray:
        try:
            values = np.frombuffer(base64.b64decode(output["values"], validate=True), "<f8")
        except (binascii.Error, ValueError) as error:
            raise InputError(f"is damaged: {error}", subject=self._file) from error
        if values.size != golden.size:
            raise self._foreign(f"elements of output {output['name']!r}", golden.size, values.size)
        if golden.dtype.kind != "f" and not (np.isfinite(values) & (values == np.rint(values))).all():
            raise InputError(
                f"output {output['name']!r} holds what is not a whole number",
                subject=self._file,
                expected=golden.dtype.name,
                found=", ".join(str(value) for value in values[:MOST_SHOWN]),
            )
        with np.errstate(over="ignore"):  # values that are too large for the type become infinite
            return values.astype(golden.dtype).reshape(golden.shape)

    def _foreign(self, what: str, expected: object, found: object) -> InputError:
        return InputError(f"has other {what} than the bundle", subject=self._file, expected=expected, found=found)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of any type are equal; NaN, a missing value, equals NaN."""
    if one.shape != other.shape:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())
