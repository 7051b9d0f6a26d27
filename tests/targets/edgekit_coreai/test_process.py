"""Apple's code in a process of its own: when it dies, it is an error, and the next request is served again."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from edgekit_coreai.process import CoreAICrashError, Process
from edgekit_coreai.runner import load
from edgekit_coreai.trace import Trace


def test_a_crash_names_the_model_and_what_was_being_done_and_the_next_request_is_served(tmp_path: Path) -> None:
    """The runtime of coreai-core 1.0.0b3 ends its process when it opens an empty folder."""
    process = Process()
    with pytest.raises(CoreAICrashError, match=r"^empty\.aimodel: [\s\S]*Core AI[\s\S]*compiling the model for this"):
        process.ask("empty.aimodel", "open", tmp_path)
    assert process.ask("next.aimodel", "close", 1) is None
    process.end()


def test_a_process_that_was_killed_is_replaced() -> None:
    process = Process()
    process.ask("model.aimodel", "close", 1)
    first = process.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert process.ask("model.aimodel", "close", 1) is None
    assert process.pid != first
    assert process.generation == 2
    process.end()


USED_AS_A_LIBRARY = """
import sys, time
import onnx
import edgekit_coreai, edgekit_coreml
from onnx import TensorProto, helper

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "test", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
runner = edgekit_coreai.load(edgekit_coreml.convert(model, sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def test_a_process_that_was_killed_leaves_no_folders_behind_once_another_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    command = [sys.executable, "-c", USED_AS_A_LIBRARY, str(tmp_path / "model")]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "open\n"
        assert list(temporary.iterdir())  # the translated package
        user.kill()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    runner = load(tmp_path / "model.mlpackage")
    runner.run({"x": np.ones((1, 4), np.float32)})
    assert len(list(temporary.iterdir())) == 1
    del runner
    gc.collect()
    assert not list(temporary.iterdir())


def test_what_is_noted_is_seen_by_the_other_process_and_cut_where_it_is_long() -> None:
    with tempfile.TemporaryFile() as file:
        ours, theirs = Trace(file.fileno()), Trace(file.fileno())
    ours.note("translating conv 'ü'")
    assert theirs.read() == "translating conv 'ü'"
    ours.note("x" * 10_000)
    assert theirs.read() == "x" * 4095
