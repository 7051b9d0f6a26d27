"""Writes the operators of a device file from the kernels that an installed ONNX Runtime has for a provider.

    python benchmarks/provider_kernels.py DEVICE [--kernels FILE | --write-kernels FILE]

    python benchmarks/provider_kernels.py cuda

ONNX Runtime lists its kernels only if it can load all of its providers, as on a machine with the device. There
--write-kernels writes the list, and needs nothing but ``onnxruntime``; on other machines --kernels reads it. Without
TensorRT's libraries the process of onnxruntime-gpu ends: libraries of their names with empty functions are enough.
DEVICE is a file of ``targets/edgekit_onnxruntime/devices`` that has a table of kernels.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DEVICES = Path(__file__).parents[1] / "targets" / "edgekit_onnxruntime" / "devices"
NO_END = 2**31 - 1
"""ONNX Runtime's last version of a kernel that has none: such a kernel is used only for its first version."""
INTERNAL = ("com.ms.internal.nhwc",)
"""Domains of operators that only ONNX Runtime itself creates."""
MADE_BY_SESSIONS = ("MemcpyFromHost", "MemcpyToHost")
NAMES = {"float": "float32", "double": "float64", "string": "str"}
"""ONNX's names of types that have another name in EdgeKit."""
Kernel = Mapping[str, Any]


def listed() -> list[dict[str, Any]]:
    """The kernels of the installed ONNX Runtime, as plain data."""
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    return [
        {
            "op": kernel.op_name,
            "domain": kernel.domain,
            "provider": kernel.provider,
            "versions": list(kernel.version_range),
            "types": dict(kernel.type_constraints),
            "onnxruntime": onnxruntime.__version__,
        }
        for kernel in get_all_opkernel_def()
    ]


def operators(kernels: Iterable[Kernel], provider: str) -> dict[str, list[dict[str, Any]]]:
    """The kernels of a provider by operator; kernels that differ only in types are merged."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for kernel in kernels:
        if kernel["provider"] == provider and kernel["domain"] not in INTERNAL and kernel["op"] not in MADE_BY_SESSIONS:
            name = ".".join(filter(None, (kernel["domain"], kernel["op"])))
            first, last = kernel["versions"]
            types = {key: sorted({_short(text) for text in texts}) for key, texts in kernel["types"].items()}
            found[name].append({"versions": [first, first if last == NO_END else last], "types": types})
    return {name: _merged(found[name]) for name in sorted(found)}


def _short(text: str) -> str:
    name = text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else text
    return NAMES.get(name, name)


def _merged(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries, merged where two differ only in the types of one parameter."""
    merged: list[dict[str, Any]] = []
    for entry in sorted(entries, key=lambda entry: entry["versions"]):
        merged.append(entry)
        while (pair := _joinable(merged)) is not None:
            first, second, joined = pair
            merged = [*(item for item in merged if item is not first and item is not second), joined]
    return sorted(merged, key=lambda entry: (entry["versions"], json.dumps(entry["types"])))


def _joinable(entries: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]] | None:
    *others, last = entries
    for other in others:
        if other["versions"] != last["versions"] or set(other["types"]) != set(last["types"]):
            continue
        differing = [key for key in last["types"] if other["types"][key] != last["types"][key]]
        if len(differing) <= 1:
            types = {key: sorted({*other["types"][key], *last["types"][key]}) for key in last["types"]}
            return other, last, {"versions": last["versions"], "types": types}
    return None


def device_text(file: Path, found: Mapping[str, list[dict[str, Any]]], version: str) -> str:
    """The text of the device file with these kernels; what it says about an operator otherwise stays."""
    data = json.loads(file.read_text(encoding="utf-8"))
    had = data.pop("operators")
    data["version"] = f"the kernels that ONNX Runtime {version} lists for {data['provider']}"
    head = json.dumps(data, indent=2, ensure_ascii=False).removesuffix("\n}")
    lines = []
    for name, kernels in found.items():
        kept = {key: value for key, value in had.get(name, {}).items() if key not in ("opsets", "note", "kernels")}
        lines.append(f'    "{name}": {json.dumps({"kernels": kernels, **kept}, separators=(",", ":"))}')
    return head + ',\n  "operators": {\n' + ",\n".join(lines) + "\n  }\n}\n"


def main() -> int:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device")
    parser.add_argument("--kernels", type=Path, metavar="FILE", help="what --write-kernels wrote")
    parser.add_argument("--write-kernels", type=Path, metavar="FILE", help="write the list alone")
    asked = parser.parse_args()
    kernels = listed() if asked.kernels is None else json.loads(asked.kernels.read_text(encoding="utf-8"))
    if asked.write_kernels is not None:
        asked.write_kernels.write_text(json.dumps(kernels), encoding="utf-8")
        return 0
    file = DEVICES / f"{asked.device}.json"
    provider = json.loads(file.read_text(encoding="utf-8"))["provider"]
    found = operators(kernels, provider)
    if not found:
        sys.exit(f"ONNX Runtime lists no kernel of {provider}")
    file.write_text(device_text(file, found, kernels[0]["onnxruntime"]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
