"""Modules whose code runs at first use."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from edgekit.deferred_imports import defer

WriteModule = Callable[[str, str], Callable[[], ModuleType]]


@pytest.fixture
def deferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteModule]:
    """Writes a module, defers it, and returns what imports it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    names = []

    def write(name: str, code: str) -> Callable[[], ModuleType]:
        (tmp_path / f"{name}.py").write_text(code)
        defer(name)
        names.append(name)
        return lambda: importlib.import_module(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_code_runs_once_at_the_first_use_of_an_attribute(
    deferred: WriteModule, capsys: pytest.CaptureFixture[str]
) -> None:
    import_it = deferred("told_when_run", "print('runs')\nANSWER = 42\n")
    import_it()
    module = import_it()
    assert capsys.readouterr().out == ""
    assert (module.ANSWER, module.ANSWER) == (42, 42)
    assert capsys.readouterr().out == "runs\n"
    assert type(module) is ModuleType


def test_code_that_asks_the_module_for_what_it_does_not_have(deferred: WriteModule) -> None:
    code = "import sys\nEARLY = hasattr(sys.modules[__name__], 'LATE')\nLATE = 1\n"
    module = deferred("asks_itself", code)()
    assert (module.EARLY, module.LATE) == (False, 1)
    with pytest.raises(AttributeError, match="module 'asks_itself' has no attribute 'missing'"):
        module.missing  # noqa: B018  # the access is what is tested


def test_code_that_fails_fails_at_each_use(deferred: WriteModule) -> None:
    module = deferred("fails", "raise ImportError('no such library')\n")()
    for _ in range(2):
        with pytest.raises(ImportError, match="no such library"):
            module.anything  # noqa: B018  # the access is what is tested


def test_threads_wait_for_the_one_that_runs_the_code(deferred: WriteModule) -> None:
    module = deferred("slow_to_run", "import time\ntime.sleep(0.2)\nANSWER = 42\n")()
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(module.ANSWER)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [42] * 8


def test_arithmetic_with_symbolic_dimensions_is_there_though_the_commands_do_not_import_it() -> None:
    script = (
        "import sys, edgekit.api, onnx_ir; print('sympy.core' in sys.modules, onnx_ir.SymbolicDim('n') + 1, "
        "'sympy.core' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split(maxsplit=1)[0] == "False"
    assert done.stdout.split(maxsplit=1)[1] == "n + 1 True\n"


def test_a_dimension_that_is_a_name_is_read_without_sympy() -> None:
    names = ["batch", "N", "decoder_input_ids.45_dim_1", "DynamicDimension.0", "2n", "floor", "12"]
    text = f"""
import sys
from edgekit.graph.sizes.shape_request import terms
assert [terms(name) for name in {names}] == [frozenset([name]) for name in {names}]
print('sympy.core' in sys.modules, sorted(terms('past + 2*sequence')), 'sympy.core' in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False ['past', 'sequence'] True\n"
