"""Lifts models of old operator sets to one that the rest of EdgeKit and its libraries know."""

from __future__ import annotations

import onnx
import onnx.version_converter
import onnx_ir as ir

from edgekit.errors import RequirementError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError
from edgekit.model import Model

OLDEST_OPSET = 9
"""Operator sets before this one are upgraded: a batch normalization then still had a training mode, say."""

UPGRADE_TO = (17, 13, 11, OLDEST_OPSET)
"""Operator sets to upgrade to, the first that works: the converter lacks some steps for some operators."""

_IR_VERSION = 8
"""The file format that belongs to the first of `UPGRADE_TO`; the oldest ones allow no initializer beside the inputs."""


def upgraded(model: Model) -> Model:
    """The model in a newer operator set, computing the same.

    Raises:
        RequirementError: It cannot be converted, or would compute something else.
    """
    proto = model.proto()
    failure = ""
    try:
        before = Equivalence(model)
        for version in UPGRADE_TO:
            try:
                converted = onnx.version_converter.convert_version(proto, version)
            except (RuntimeError, ValueError) as error:  # the converter is native code and has no error of its own
                failure = " ".join(str(error).split())
                continue
            converted.ir_version = max(converted.ir_version, _IR_VERSION)
            newer = model.with_graph(ir.from_proto(converted))
            difference = before.difference(newer)
            if difference is None:
                return newer
            failure = f"as opset {version} it computes something else: {difference}"
    except NotRunnableError as error:
        failure = f"what it computes cannot be compared: {error}"
    raise RequirementError(
        f"opset {model.opset} is too old, and the model cannot be upgraded",
        subject=model.source,
        expected=f"opset {OLDEST_OPSET} or newer",
        found=failure,
        hint="export the model again with a newer opset_version",
    )
