"""The C++ program of docs/targets/openvino.md."""

import re
import shutil
import subprocess
from pathlib import Path

import onnx
import openvino
import pytest

from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

DOCS = Path(__file__).parents[3] / "docs" / "targets" / "openvino.md"
MODEL = (
    '<ir_version: 8, opset_import: ["" : 17]> g '
    "(uint8[1, 4] frame, float[1, 4] h) => (float[1, 4] y, float[1, 4] h_out) "
    "{ f = Cast <to = 1> (frame) h_out = Tanh (h) s = Sqrt (f) y = Add (s, h_out) }"
)


@pytest.mark.cxx
@pytest.mark.slow
def test_the_program_of_the_docs_gives_the_golden_numbers(tmp_path: Path) -> None:
    missing = [tool for tool in ("cmake", "c++") if not shutil.which(tool)]
    missing += [] if Path("/usr/include/nlohmann/json.hpp").is_file() else ["nlohmann-json3-dev"]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    text = DOCS.read_text(encoding="utf-8")
    for language, name in (("cpp", "golden.cpp"), ("cmake", "CMakeLists.txt")):
        (source,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        (tmp_path / name).write_text(source, encoding="utf-8")
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    bundle = package(PackageRequest(tmp_path / "model.onnx", "intel-cpu", tmp_path / "bundle"), Progress()).path
    package_folder = Path(openvino.__file__).parent / "cmake"
    build = tmp_path / "build"
    for command in (
        ["cmake", "-S", tmp_path, "-B", build, f"-DOpenVINO_DIR={package_folder}", "-DCMAKE_CXX_FLAGS=-Wall -Werror"],
        ["cmake", "--build", build],
        [build / "golden", bundle],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"^(\d) (\w+): max abs error (\S+)$", done.stdout, re.MULTILINE)
    assert [(sample, name) for sample, name, _ in told] == [(s, n) for s in "012" for n in ("y", "h_out")]
    assert all(float(error) < 1e-5 for *_, error in told)
