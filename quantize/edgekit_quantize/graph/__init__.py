"""What the quantizer asks of an ONNX graph, and how it edits one."""
