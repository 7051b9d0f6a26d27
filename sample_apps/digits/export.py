"""Writes the trained network as ONNX, once with each of PyTorch's exporters."""

from __future__ import annotations

from pathlib import Path

import torch
from onnx_ir.passes.common import ClearMetadataAndDocStringPass

OPSET = 18


def export_both(network: torch.nn.Module, folder: Path) -> list[Path]:
    """Write ``digits_torchscript.onnx`` and ``digits_dynamo.onnx``, with a dynamic dimension called ``batch``."""
    network = network.eval()
    example = (torch.zeros(2, 1, 28, 28),)
    torchscript, dynamo = folder / "digits_torchscript.onnx", folder / "digits_dynamo.onnx"
    torch.onnx.export(
        network,
        example,
        torchscript,
        dynamo=False,
        opset_version=OPSET,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
    )
    program = torch.onnx.export(
        network,
        example,
        dynamo=True,
        opset_version=OPSET,
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes={"image": {0: torch.export.Dim("batch")}},
    )
    assert program is not None
    ClearMetadataAndDocStringPass()(program.model)  # the metadata contains paths of this machine
    program.save(dynamo)
    return [torchscript, dynamo]
