from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from edgekit.errors import InputError
from edgekit.faults import as_edgekit_error


@pytest.mark.parametrize(
    "failure",
    [
        MemoryError("Unable to allocate 1.00 TiB for an array"),
        RuntimeError("pthread_create failed, error code: 12 error msg: Cannot allocate memory"),
        RuntimeError("[ONNXRuntimeError] : Failed to allocate memory for requested buffer of size 17"),
        RuntimeError("std::bad_alloc"),
    ],
    ids=["Python", "a thread", "a buffer", "C++"],
)
def test_memory_that_runs_out_is_no_fault_of_edgekit(failure: Exception) -> None:
    error = as_edgekit_error(failure)
    assert isinstance(error, InputError)
    assert str(error) == (
        f"needs more memory than there is: {failure}\nhint: `--max-memory SIZE` allows more, where the model needs it"
    )


@pytest.mark.parametrize(
    ("module", "package"), [("openvino", "openvino"), ("PIL.Image", "pillow"), ("onnx_ir", "onnx-ir")]
)
def test_a_required_package_that_is_missing_is_no_fault_of_edgekit(module: str, package: str) -> None:
    """The requirements are those that pip reads."""
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["dependencies"]
    required = next(entry for entry in declared if entry.startswith(f"{package}>="))
    error = as_edgekit_error(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert isinstance(error, InputError)
    assert str(error) == (
        f"a package that EdgeKit requires cannot be imported\nexpected: {required}\nfound: No module named {module!r}\n"
        f"hint: install it: pip install '{required}'; if it is installed, another version or system library is in its "
        "way: make a new environment"
    )


@pytest.mark.parametrize("module", ["hailo_sdk", "distributed", "", None])
def test_another_package_is_none_of_the_requirements(module: str | None) -> None:
    """``distributed`` is needed by an extra only."""
    error = as_edgekit_error(ImportError("cannot be imported", name=module))
    assert error.message == "a fault of EdgeKit itself: ImportError: cannot be imported"


def test_a_model_is_not_blamed_for_a_missing_package(tmp_path: Path, digits: Path) -> None:
    program = f"""
import sys
class Without:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "onnxruntime":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
from edgekit.__main__ import run
sys.argv = ["edgekit", "package", {str(digits)!r}, "--target", "onnxruntime", "-q", "-o", "out"]
sys.exit(run())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
    )
    assert ended.returncode == 2
    assert "error: a package that EdgeKit requires cannot be imported\nexpected: onnxruntime>=" in ended.stderr
    assert digits.name not in ended.stderr
