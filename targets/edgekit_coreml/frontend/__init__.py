"""ONNX to MIL: what every ONNX operator becomes in a Core ML ML Program.

``registry`` holds the lowerings by domain, operator and schema version; ``ops`` has one file a family of them;
``lowering`` walks the graph, folds what is constant, expands function bodies and collects every gap.
"""
