"""ONNX Runtime bundles: .onnx and .ort."""
