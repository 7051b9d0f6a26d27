"""A quantizer that stores matrices and kernels in 8 bits with one scale per tensor, and measures nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit.quantizer import QuantizationRequest, QuantizationResult, Quantizer, Scheme

LARGEST = 127


class ToyQuantizer(Quantizer):
    """Quantizes only weights, so it needs no samples."""

    contract_version = 1
    name = "toy"

    @property
    def schemes(self) -> Sequence[Scheme]:
        """The quantizer's only scheme."""
        return (Scheme("toy-int8", "weights of rank 2 and more in 8 bits, one scale a tensor"),)

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        """Stores each weight as integers, and a Cast and a Mul that restore it."""
        changed = request.model.graph_model.clone()
        graph = changed.graph
        stored = []
        for name, value in list(graph.initializers.items()):
            tensor = value.const_value
            if tensor is None or tensor.dtype != ir.DataType.FLOAT or len(tensor.shape) < 2:
                continue
            weights = tensor.numpy()
            scale = np.float32(max(float(np.abs(weights).max()), 1e-9) / LARGEST)
            integers = np.clip(np.rint(weights / scale), -LARGEST, LARGEST).astype(np.int8)
            inputs = []
            for suffix, array in (("int8", integers), ("scale", np.asarray(scale))):
                constant = ir.Value(name=f"{name}_{suffix}", const_value=ir.tensor(array, name=f"{name}_{suffix}"))
                constant.shape, constant.dtype = ir.Shape(array.shape), ir.DataType.from_numpy(array.dtype)
                graph.register_initializer(constant)
                inputs.append(constant)
            cast = ir.node("Cast", inputs[:1], {"to": int(ir.DataType.FLOAT)}, name=f"{name}_cast")
            cast.outputs[0].name = f"{name}_float"
            scaled = ir.node("Mul", [cast.outputs[0], inputs[1]], name=f"{name}_scaled")
            restored = scaled.outputs[0]
            restored.name, restored.shape, restored.dtype = f"{name}_restored", value.shape, value.dtype
            ir.convenience.replace_all_uses_with(value, restored)
            graph.insert_before(graph[0], [cast, scaled])
            del graph.initializers[name]
            stored.append(name)
        record = {"scheme": request.scheme, "samples": 0, "stored": stored, "warnings": []}
        return QuantizationResult(request.model.with_graph(changed), record)
