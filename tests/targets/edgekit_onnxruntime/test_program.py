"""The C++ program of docs/targets/onnxruntime.md."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest

DOCS = Path(__file__).parents[3] / "docs" / "targets" / "onnxruntime.md"
GRAPH = (
    "(uint8[1, 4] frame, float[1, 4] h) => (float[1, 4] y, float[1, 4] h_out) "
    "{ f = Cast <to = 1> (frame) s = Add (f, h) h_out = Tanh (h) y = Sqrt (f) }"
)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The folder of the library of onnxruntime's wheel, under the names that a linker and a loader look for."""
    libraries = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    missing = [tool for tool in ("c++",) if not shutil.which(tool)]
    missing += [] if Path("/usr/include/nlohmann/json.hpp").is_file() else ["nlohmann-json3-dev"]
    if missing or not libraries:
        pytest.skip(f"not here: {', '.join(missing) or 'libonnxruntime.so in the wheel'}")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (tmp_path / name).symlink_to(libraries[0])
    return tmp_path


@pytest.mark.cxx
@pytest.mark.slow
def test_the_program_of_the_docs_gives_the_golden_numbers(
    bundle_for: Callable[..., Path], onnxruntime_headers: Path, library: Path
) -> None:
    (source,) = re.findall(r"```cpp\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (library / "golden.cpp").write_text(source, encoding="utf-8")
    flags = ["-std=c++17", "-Wall", "-Werror", "-isystem", str(onnxruntime_headers), f"-Wl,-rpath,{library}"]
    command = ["c++", *flags, str(library / "golden.cpp"), "-L", str(library), "-lonnxruntime", "-o", "golden"]
    done = subprocess.run(command, cwd=library, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    program = [str(library / "golden"), str(bundle_for(GRAPH, "onnxruntime"))]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = re.findall(r"^(\d) (\w+): max abs error (\S+)$", done.stdout, re.MULTILINE)
    assert [(sample, name) for sample, name, _ in told] == [(s, n) for s in "012" for n in ("y", "h_out")]
    assert all(float(error) < 1e-5 for *_, error in told)
