"""The kinds of device that ONNX Runtime builds are made for."""

from __future__ import annotations

from edgekit.target import Profile

PROFILES = (
    Profile(
        "onnxruntime",
        "ONNX Runtime on this kind of computer, CPU provider",
        {"provider": "CPUExecutionProvider"},
        aliases=("ort",),
        runs_here=True,
    ),
    Profile(
        "android-cpu",
        "ONNX Runtime on Android (arm64), CPU provider",
        {"provider": "CPUExecutionProvider", "architecture": "arm64"},
        aliases=("android",),
    ),
    Profile(
        "android-nnapi",
        "ONNX Runtime on Android (arm64), NNAPI provider (deprecated by Android 15)",
        {"provider": "NnapiExecutionProvider", "architecture": "arm64", "table": "nnapi_supported_ops.md"},
    ),
    Profile(
        "android-qnn",
        "ONNX Runtime on Android (arm64), QNN provider on the Hexagon NPU",
        {"provider": "QNNExecutionProvider", "architecture": "arm64"},
    ),
    Profile(
        "web",
        "onnxruntime-web in a browser, WebAssembly",
        {"provider": "wasm"},
    ),
)
