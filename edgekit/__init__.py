"""EdgeKit: takes a trained ONNX model, gets it onto the device, and proves that it still works."""

__version__ = "0.1.0"
