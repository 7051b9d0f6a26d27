"""A target that ships the ONNX file, and executes it with onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edgekit.device_check.python_check import python_check
from edgekit.model import Arrays, Model, ValueSpec, node_name, op_name
from edgekit.target import (
    Artifact,
    BuildOptions,
    DeviceCheck,
    Evidence,
    Feature,
    NodeVerdict,
    Profile,
    Runner,
    Support,
    Target,
)

REFUSED = "Celu"
"""An operator that the toy device does not have."""


class ToyTarget(Target):
    """A target with only the attributes and methods that every target needs."""

    contract_version = 1
    name = "toy"

    @property
    def profiles(self) -> Sequence[Profile]:
        """The target's only device."""
        return (Profile("toy-device", "onnx.reference on this computer", runs_here=True),)

    def check(self, model: Model, profile: Profile) -> list[NodeVerdict]:
        """Every node is supported except those of the operator :data:`REFUSED`."""
        return [
            NodeVerdict(
                node=node_name(node),
                op_type=op_name(node),
                support=Support.UNSUPPORTED if node.op_type == REFUSED else Support.SUPPORTED,
                evidence=Evidence.REGISTRY,
                unit="" if node.op_type == REFUSED else "CPU",
                detail="the toy device does not have it" if node.op_type == REFUSED else "",
            )
            for node in model.graph.all_nodes()
        ]

    def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
        """Writes the model unchanged."""
        main = folder / "model.onnx"
        model.save(main)
        return Artifact(
            main=main,
            files=tuple(folder.iterdir()),
            inputs=tuple(map(_feature, model.inputs)),
            outputs=tuple(map(_feature, model.outputs)),
            record={"precision_asked": options.precision},
        )

    def load(self, main: Path, profile: Profile, *, threads: int = 1) -> Runner:
        """Opens what `build` wrote."""
        return ToyRunner(main)

    def device_check(self, profile: Profile, artifact: Artifact) -> DeviceCheck:
        """The program in ``assets/check.py``, with EdgeKit's own files beside it."""
        return python_check("edgekit_toy")


class ToyRunner:
    """Executes an ONNX file.

    Args:
        main: The file.
    """

    def __init__(self, main: Path) -> None:
        from onnx.reference import ReferenceEvaluator

        self._evaluator = ReferenceEvaluator(str(main))

    @property
    def executed_by(self) -> str:
        """What executes, and its version."""
        import onnx

        return f"onnx.reference {onnx.__version__}"

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name."""
        return dict(zip(self._evaluator.output_names, self._evaluator.run(None, dict(feeds)), strict=True))


def _feature(value: ValueSpec) -> Feature:
    shape = value.shape or ()
    return Feature(value.name, value.dtype, shape, value.name, value.dtype, shape)
