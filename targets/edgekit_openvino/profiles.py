"""The kinds of device that OpenVINO builds are made for."""

from __future__ import annotations

from edgekit.target import Profile

PROFILES = (
    Profile(
        "intel-cpu",
        "Intel (or AMD) CPU, OpenVINO's CPU plugin",
        {"device": "CPU", "precision": "float32"},
        aliases=("intel", "openvino-cpu"),
        runs_here=True,
        instruction_sets=("avx2", "avx512", "vnni", "amx"),
    ),
    Profile(
        "intel-gpu",
        "Intel GPU (Iris Xe, Arc), OpenVINO's GPU plugin; checked here on the CPU",
        {"device": "GPU", "precision": "float16"},
        aliases=("openvino-gpu",),
        accelerator="GPU",
    ),
    Profile(
        "intel-npu",
        "Intel NPU (Core Ultra), OpenVINO's NPU plugin; checked here on the CPU",
        {"device": "NPU", "precision": "float16"},
        aliases=("openvino-npu",),
        accelerator="NPU",
    ),
)
