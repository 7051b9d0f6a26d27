"""Accuracy of quantized files on OpenVINO, restricted to each instruction set: EdgeKit's, NNCF's and ONNX Runtime's.

    python benchmarks/instruction_sets.py [NAME ...] --work DIR [--tools edgekit-openvino,nncf] [--json FILE]

The files are those that quantizers.py left in --work; the scores are the same as there, against the float model's
answers on the samples that did not calibrate, executed on one thread. Each set has its own process, which oneDNN's
ONEDNN_MAX_CPU_ISA restricts to it; oneDNN does not use a set that this processor lacks. A file that ends the process
has no score.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quantizers import TASKS, feeds_of, opened
from scores import METRICS, Answers

SETS = {"avx2": "AVX2", "avx512": "AVX512_CORE", "vnni": "AVX512_CORE_VNNI", "amx": "ALL"}
"""oneDNN's names of the instruction sets; the last one restricts nothing."""
SCORE = "--score"
LIMIT_SECONDS = 600


def scores(base: Path, model: Path, test: Path, metrics: Sequence[str]) -> dict[str, float]:
    """The score of a model by each metric, executed in this process."""
    samples = [*feeds_of(test)]
    reference, run = opened("onnxruntime", base), opened("openvino", model)
    exact: Answers = [reference(feeds) for feeds in samples]
    found: Answers = [run(feeds) for feeds in samples]
    return {name: METRICS[name](found, exact, []) for name in metrics}


def held(isa: str, base: Path, model: Path, test: Path, metrics: Sequence[str]) -> dict[str, Any]:
    """The scores in a process that is restricted to an instruction set, or how the process failed."""
    command = [sys.executable, __file__, SCORE, str(base), str(model), str(test), json.dumps(metrics)]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": SETS[isa]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    if done.returncode:
        said = [*filter(None, done.stderr.splitlines())]
        return {"error": f"signal {-done.returncode}" if done.returncode < 0 else said[-1][:120]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Print a row for each task and tool."""
    if sys.argv[1:2] == [SCORE]:
        base, model, test = map(Path, sys.argv[2:5])
        sys.stdout.write(json.dumps(scores(base, model, test, json.loads(sys.argv[5]))) + "\n")
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *TASKS], help=", ".join(TASKS))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tools", default="edgekit-openvino,nncf,onnxruntime")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sys.stdout.write(" | ".join(["task", "tool", *SETS]) + "\n")
    for name in options.names or TASKS:
        folder = options.work / name
        for tool in ("base", *options.tools.split(",")):
            model = folder / f"{tool}.onnx"
            if not model.is_file():
                continue
            row = {isa: held(isa, folder / "base.onnx", model, folder / "test", TASKS[name]) for isa in SETS}
            cells = [cell.get("error") or ", ".join(f"{value:.4g}" for value in cell.values()) for cell in row.values()]
            sys.stdout.write(" | ".join([name, tool, *cells]) + "\n")
            sys.stdout.flush()
            if options.json is not None:
                with options.json.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps({"task": name, "tool": tool, **row}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
