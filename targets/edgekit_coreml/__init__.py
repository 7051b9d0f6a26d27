"""ONNX to Core ML ML Programs, and a reference runtime that executes them on any OS."""
