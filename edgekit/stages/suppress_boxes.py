"""A detector's boxes are suppressed in the model, so that an app gets each object once: ``--postprocess nms``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from edgekit.comparison.boxes import detectors
from edgekit.comparison.boxes.near import nearly_recognised
from edgekit.comparison.boxes.reading import Detector, Rows, detector_of, table_of
from edgekit.comparison.boxes.suppression import (
    BoxAttributes,
    companions,
    output_name,
    suppressed_rows,
    with_suppression,
)
from edgekit.comparison.meaning import SEEN, BoxMeaning
from edgekit.comparison.side_by_side import meaning_on
from edgekit.data.samples import Samples, SeededSamples
from edgekit.errors import InputError
from edgekit.execution.reference import Reference
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.features.suppression import Suppression
from edgekit.model import Model
from edgekit.stages import Stage, StageResult

FLAG = "--postprocess"
BATCH_HINT = "give the model a batch of 1 with --dim or --shape"


class SuppressBoxes(Stage[Model]):
    """Puts non-maximum suppression at the end of a detector, in place of the outputs that hold its boxes.

    How these outputs encode boxes is recognized on the samples, as it is when the build is judged.

    Args:
        asked: The settings of suppression.
        samples: The samples to recognize boxes on.
    """

    name = "suppress boxes"

    def __init__(self, asked: Suppression, samples: Samples) -> None:
        self._asked = asked
        self._samples = samples

    def requires(self, given: Model) -> None:
        """Checks that boxes can be recognized and suppressed at all.

        Raises:
            InputError: There are no samples, sizes are open, or the model takes several pictures at once.
        """
        if isinstance(self._samples, SeededSamples):
            raise InputError(
                "boxes are recognised on samples",
                subject=FLAG,
                expected="pictures with something to find",
                found="no samples",
                hint="give some with --data",
            )
        if given.open_dims:
            raise InputError(
                "suppression needs pictures of one size",
                subject=FLAG,
                expected="fixed dimensions",
                found=f"open ones: {', '.join(given.open_dims)}",
                hint="fix them with --dim or --shape",
            )
        picture = detectors.picture_among(given.fed_inputs)
        if picture is not None and picture.shape is not None and picture.shape[0] != 1:
            raise InputError(
                "suppression takes one picture at a time",
                subject=FLAG,
                expected="a batch of 1",
                found=picture,
                hint=BATCH_HINT,
            )

    def run(self, given: Model) -> StageResult:
        """Recognizes the boxes and suppresses them.

        Raises:
            InputError: The outputs are not recognized as boxes, the order of x and y in them is not known, the boxes
                are turned, or the model suppresses them itself.
        """
        reference = Reference(given)
        meaning = meaning_on(self._samples, reference, given)
        if not isinstance(meaning, BoxMeaning):
            raise self._unread(given, reference)
        detector = meaning.detector
        self._require_suppressible(detector)
        first = reference.run(next(iter(self._samples)).feeds)
        record = {
            "suppression": self._asked.as_record(),
            "detector": detector.as_record(),
            "rows": {name: _count(detector, first, name) for name in detector.placing},
            "output": output_name(given),
            "beside": [asdict(each) | {"outputs": list(each.outputs)} for each in companions(detector, first)],
        }
        return StageResult(with_recorded(given, record), record)

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        boxes, *others = (spec.name for spec in result.model.outputs)
        read = {*detector_of(result.record["detector"]).outputs}
        read.update(name for each in result.record["beside"] for name in each["outputs"])
        if boxes != result.record["output"] or others != [spec.name for spec in given.outputs if spec.name not in read]:
            raise self.broken("the outputs are others")

    def _unread(self, given: Model, reference: Reference) -> InputError:
        answers = [reference.run(sample.feeds) for sample in itertools.islice(self._samples, SEEN)]
        classes = len(given.class_names) or None
        near = nearly_recognised(answers, given.fed_inputs, classes, given.declared or detectors.UNDECLARED)
        return InputError(
            "the model's outputs are not read as boxes",
            subject=FLAG,
            expected="a detector's outputs, and samples with something to find",
            found=str(near) if near is not None else "; ".join(map(str, given.outputs)),
            hint="[outputs] in the project file tells which outputs hold boxes, and how",
        )

    @staticmethod
    def _require_suppressible(detector: Detector) -> None:
        if not isinstance(detector, Rows):
            return
        if detector.classes is not None:
            raise InputError(
                "the model suppresses its boxes itself",
                subject=FLAG,
                expected="boxes before suppression",
                found=detector.read_as,
                hint=f"leave {FLAG} out",
            )
        if detector.order is None:
            raise InputError(
                "nothing tells whether x or y comes first in the boxes",
                subject=FLAG,
                expected='[outputs] order = "xy" or "yx" in the project file',
                found=detector.read_as,
            )
        if detector.beside is not None and detector.beside.count == 1:
            raise InputError(
                "the boxes are turned, and suppression compares upright ones",
                subject=FLAG,
                expected="boxes whose sides are those of the picture",
                found=f"an angle behind the scores of {detector.scores.output!r}",
                hint="leave the choice of turned boxes to the app",
            )


def with_recorded(model: Model, record: Mapping[str, Any]) -> Model:
    """The model with suppression as the stage's record describes it, and with its outputs declared accordingly.

    Args:
        model: The model without suppression; its dimensions may be free.
        record: What the stage recorded.
    """
    detector, output = detector_of(record["detector"]), record["output"]
    numbers = {key: value for key, value in record["suppression"].items() if key != "kind"}
    beside = [BoxAttributes(tuple(each["outputs"]), each["columns"]) for each in record["beside"]]
    suppressed = with_suppression(model, detector, record["rows"], Suppression(**numbers), output, beside)
    rows = suppressed_rows(detector, output, beside)
    declared = DeclaredOutputs(
        boxes=(output,), coordinates="corners", unit="share" if rows.are_shares else "pixel", order="xy"
    )
    return replace(suppressed, declared=declared)


def _count(detector: Detector, outputs: Mapping[str, Any], name: str) -> int:
    """How many boxes an output holds before suppression."""
    if isinstance(detector, Rows):
        return len(detector.coordinates.of(dict(outputs)))
    return len(table_of(outputs[name]))
