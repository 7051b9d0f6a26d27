"""ONNX models as ML Programs on disk: the `.mlpackage` that Core ML loads, and that Core AI models are translated from.

``conversion`` joins the frontend (``edgekit_mil``) with the choice of each operation's precision, which the reference
runtime (``edgekit_mlruntime``) decides by executing trials.
"""
