"""The profiles of ONNX Runtime: those of the CPU provider, WebAssembly, and one for each device file."""

from __future__ import annotations

from edgekit.target import Profile
from edgekit_onnxruntime import devices

PROFILES = (
    Profile(
        "onnxruntime",
        "ONNX Runtime on this kind of computer, CPU provider",
        {"provider": "CPUExecutionProvider"},
        aliases=("ort",),
        runs_here=True,
        instruction_sets=("avx2", "avx512", "vnni", "amx"),
    ),
    Profile(
        "android-cpu",
        "ONNX Runtime on Android (arm64), CPU provider",
        {"provider": "CPUExecutionProvider", "architecture": "arm64"},
        aliases=("android",),
        instruction_sets=("neon",),
    ),
    Profile(
        "web",
        "onnxruntime-web in a browser, WebAssembly",
        {"provider": "wasm"},
        aliases=("web-wasm",),
        runs_on_processors=False,
    ),
    *devices.profiles(),
)
