"""Bundles on a real SSH server of the tests' own: on loopback, on a free port, with its own keys."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import numpy as np
import openvino
import pytest

import edgekit
from edgekit.bundle import UNLISTED, Bundle, file_records, read_bundle
from edgekit.bundle_checks.benchmark import bench_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices import remote
from edgekit.devices.opening import open_device
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.timing.latency import LEAST_RUNS

pytestmark = pytest.mark.xdist_group("ssh-device")

DigitsBundle = Callable[[str, str], Path]
RunEdgeKit = Callable[..., Any]

PRIVILEGE_SEPARATION = Path("/run/sshd")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class SshServer:
    """A running sshd; ``arrivals`` is where it puts what is copied there."""

    process: subprocess.Popen[bytes]
    port: int
    keys: Path
    arrivals: Path

    def url(self, port: int | None = None, **query: str) -> str:
        given = {"python": sys.executable, "folder": str(self.arrivals), "config": str(self.keys / "config"), **query}
        return f"ssh://{getpass.getuser()}@127.0.0.1:{port or self.port}?{urlencode(given)}"

    def client_config(self, name: str, **options: object) -> Path:
        """Writes a configuration of the client in which some options are replaced."""
        known = {
            "IdentityFile": self.keys / "client",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.keys / "known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "HostKeyAlias": "device",
            **options,
        }
        path = self.keys / name
        path.write_text("".join(f"{option} {value}\n" for option, value in known.items()))
        return path

    def sessions(self) -> list[int]:
        """The server's processes, one or two per connection, and the processes that they have started."""
        return descendants(self.process.pid)


def descendants(process: int) -> list[int]:
    """Ids of all processes below one, the nearest first."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(folder.name)] = int(fields[1])
    found: list[int] = []
    nearest = [process]
    while nearest:
        nearest = [child for child, parent in parents.items() if parent in nearest]
        found += nearest
    return found


@pytest.fixture(scope="session")
def ssh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if program is None or shutil.which("ssh") is None:
        pytest.skip("OpenSSH's server is not installed (`make tools` installs what the tests need)")
    if os.geteuid() == 0:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)  # as its package's start script does
    keys = tmp_path_factory.mktemp("ssh")
    for name in ("host", "client", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
    shutil.copy(keys / "client.pub", keys / "authorized")
    (keys / "known_hosts").write_text(f"device {(keys / 'host.pub').read_text()}")
    port = free_port()
    options = {
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "HostKey": keys / "host",
        "AuthorizedKeysFile": keys / "authorized",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "yes",
        "PidFile": "none",
    }
    configuration = keys / "sshd_config"
    configuration.write_text("".join(f"{option} {value}\n" for option, value in options.items()))
    with (keys / "log").open("wb") as log:
        process = subprocess.Popen([program, "-D", "-e", "-f", configuration], stderr=log)
    arrivals = keys / "arrivals"
    arrivals.mkdir()
    server = SshServer(process, port, keys, arrivals)
    server.client_config("config")
    try:
        wait_until(lambda: accepts(port) or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip(f"sshd does not start here: {(keys / 'log').read_text().strip()}")
        yield server
    finally:
        for child in server.sessions():
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.wait()


def accepts(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Waits until a condition that depends on other processes holds.

    Raises:
        AssertionError: The condition does not hold in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


def words_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:  # it has ended meanwhile
        return ""


@pytest.fixture(autouse=True)
def _nothing_is_left(ssh_server: SshServer) -> Iterator[None]:
    """Every test here has to leave the device as it was, and no process on either side."""
    yield
    wait_until(lambda: not list(ssh_server.arrivals.iterdir()) and not ssh_server.sessions())
    assert [process for process in descendants(os.getpid()) if words_of(process).startswith("ssh ")] == []


@pytest.fixture
def onnxruntime_bundle(digits_bundle: DigitsBundle) -> Bundle:
    return read_bundle(digits_bundle("digits-onnxruntime", "none"))


@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("name", ["digits-onnxruntime", "digits-intel-cpu"])
def test_the_digits_bundle_passes(name: str, quantize: str, digits_bundle: DigitsBundle, ssh_server: SshServer) -> None:
    verification = verify_bundle(read_bundle(digits_bundle(name, quantize)), device=open_device(ssh_server.url()))
    runtime = "ONNX Runtime " if name == "digits-onnxruntime" else "OpenVINO "
    assert verification.executed_by.startswith(runtime)
    assert verification.executed_by.endswith(f"on Linux {platform.machine()}")


@pytest.mark.slow
@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu"])
@pytest.mark.parametrize("name", ["qonnx_mnist_conv", "speech_embedding"])
def test_models_of_the_zoo_pass(
    name: str, target: str, quantize: str, zoo_bundle: Callable[[str, str, str], Bundle], ssh_server: SshServer
) -> None:
    verify_bundle(zoo_bundle(name, target, quantize), device=open_device(ssh_server.url()))


def test_it_computes_there_what_the_same_runtime_computes_here(
    onnxruntime_bundle: Bundle, ssh_server: SshServer
) -> None:
    with (
        open_device(ssh_server.url()).open(onnxruntime_bundle) as there,
        open_device("local").open(onnxruntime_bundle) as here,
    ):
        for feeds, _ in onnxruntime_bundle.golden():
            np.testing.assert_array_equal(there.run(feeds)["logits"], here.run(feeds)["logits"])


def test_accuracy_on_further_samples(digits: Path, labelled_digits: Path, bundle: Path, ssh_server: SshServer) -> None:
    verification = verify_bundle(read_bundle(bundle), labelled_digits, digits, device=open_device(ssh_server.url()))
    assert verification.accuracy is not None
    assert verification.accuracy.task is not None
    assert (verification.accuracy.samples, verification.accuracy.task.built) == (20, 1.0)


def test_the_gate_has_the_device_execute_samples(
    digits: Path, labelled_digits: Path, bundle: Path, ssh_server: SshServer, tmp_path: Path
) -> None:
    project = tmp_path / "edgekit.toml"
    project.write_text("[budget]\naccuracy = 0.5\n")
    for model, budget in ((digits, "outputs on samples"), (None, "accuracy on samples")):
        (judged,) = edgekit.gate(
            bundle, data=labelled_digits, model=model, config=project, device=ssh_server.url()
        ).bundles
        (verdict,) = [verdict for verdict in judged.verdicts if verdict.budget == budget]
        assert judged.passed
        assert " samples, executed by ONNX Runtime " in verdict.found
        assert " on Linux " in verdict.found  # as a bundle on a device says where it ran


def test_a_device_that_computes_something_else_is_caught(bundle: Path, ssh_server: SshServer) -> None:
    opened = read_bundle(bundle)
    for golden in bundle.glob("golden/*/outputs/0.npy"):
        np.save(golden, -np.load(golden))
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["files"] = [record for record in file_records(bundle) if record["path"] not in UNLISTED]
    with pytest.raises(RequirementError, match="does not compute its golden outputs, executed by ONNX Runtime"):
        verify_bundle(Bundle(opened.path, manifest), device=open_device(ssh_server.url()))


def test_time_is_measured_there(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    feeds, _ = next(onnxruntime_bundle.golden())
    with open_device(ssh_server.url()).open(onnxruntime_bundle) as session:
        first, second = session.time(feeds, 7, 2), session.time(feeds, 5, 0)
    assert (len(first.milliseconds), len(second.milliseconds)) == (7, 5)
    assert first.settings == {"threads": "1", "provider": "CPUExecutionProvider"}
    assert first.load_ms > 0
    assert first.peak_memory is not None
    assert 10e6 < first.peak_memory < 2e9


def test_two_bundles_take_turns_there(digits_bundle: DigitsBundle, ssh_server: SshServer) -> None:
    first, second = (read_bundle(digits_bundle("digits-onnxruntime", quantize)) for quantize in ("none", "int8"))
    candidates = bench_bundle(first, second, device=open_device(ssh_server.url()))
    assert [candidate.name for candidate in candidates] == [str(first.path), str(second.path)]
    for candidate in candidates:
        assert candidate.of_device
        assert candidate.executed_by.endswith(f"on Linux {platform.machine()}")
        assert len(candidate.latency.milliseconds) >= LEAST_RUNS


def test_the_runtimes_own_precision_is_measured_there_too(digits_bundle: DigitsBundle, ssh_server: SshServer) -> None:
    bundle, device = read_bundle(digits_bundle("digits-intel-cpu", "none")), open_device(ssh_server.url())
    own = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT").to_string()
    with device.open_in_default_precision(bundle) as session:
        assert f", CPU, {own}, 1 thread" in session.executed_by


def test_inputs_that_the_model_refuses_end_nothing(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    feeds, _ = next(onnxruntime_bundle.golden())
    with open_device(ssh_server.url()).open(onnxruntime_bundle) as session:
        with pytest.raises(RequirementError, match="cannot be run there") as caught:
            session.run({name: array[..., :5] for name, array in feeds.items()})
        assert "Got invalid dimensions for input" in str(caught.value)
        with pytest.raises(InputError, match="names are not the model's"):
            session.run({"x": np.zeros(1)})
        session.run(feeds)


def test_what_a_login_shell_prints_is_passed_over(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    key = (ssh_server.keys / "stranger.pub").read_text()
    with (ssh_server.keys / "authorized").open("a") as authorized:
        authorized.write(f'command="echo Welcome; eval \\"$SSH_ORIGINAL_COMMAND\\"" {key}')
    try:
        config = ssh_server.client_config("noisy", IdentityFile=ssh_server.keys / "stranger")
        verify_bundle(onnxruntime_bundle, device=open_device(ssh_server.url(config=str(config))))
    finally:
        shutil.copy(ssh_server.keys / "client.pub", ssh_server.keys / "authorized")


class CutOff:
    """A port in front of the server's; the first connections through it are cut after a given number of bytes."""

    def __init__(self, port: int, limits: list[int]) -> None:
        self._target = port
        self._limits = limits
        self.carried: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            limit = self._limits[len(self.carried)] if len(self.carried) < len(self._limits) else None
            self.carried.append(0)
            threading.Thread(target=self._carry, args=(client, server, len(self.carried) - 1, limit)).start()
            threading.Thread(target=self._carry, args=(server, client, None, None)).start()

    def _carry(self, source: socket.socket, target: socket.socket, count: int | None, limit: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                if count is not None:
                    self.carried[count] += len(data)
                    if limit is not None and self.carried[count] > limit:
                        break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


SIZE = 24_000_000  # a server buffers some millions, which are lost


@pytest.fixture
def large_bundle(bundle: Path) -> Bundle:
    (bundle / "zz.bin").write_bytes(np.random.default_rng(0).bytes(SIZE))  # the last that is copied
    return read_bundle(bundle)


def test_a_copy_that_breaks_off_is_taken_up_where_it_was(large_bundle: Bundle, ssh_server: SshServer) -> None:
    steps: list[tuple[str, int, int]] = []
    with CutOff(ssh_server.port, [SIZE // 2, SIZE // 2]) as way:
        device = open_device(ssh_server.url(way.port), step=lambda *step: steps.append(step))
        with device.open(large_bundle) as session:
            session.run(next(large_bundle.golden())[0])
        assert steps[0] == ("MB copied:", 0, SIZE // 10**6 + 1)
        assert steps[-1][1] >= SIZE // 10**6
        assert len(way.carried) == 3
        assert way.carried[2] < SIZE // 2


def test_a_copy_that_breaks_off_again_and_again_is_given_up(
    large_bundle: Bundle, ssh_server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_SECONDS_BEFORE_RECONNECTS", (0.1, 0.1, 0.1))
    with CutOff(ssh_server.port, [100_000] * 4) as way:
        with (
            pytest.raises(RequirementError, match="broke off 4 times while the bundle was copied"),
            open_device(ssh_server.url(way.port)).open(large_bundle),
        ):
            pass
        assert len(way.carried) == 5  # the last one removes what had arrived


def refusal(kind: type[EdgeKitError], bundle: Bundle, url: str, timeout: float | None = None) -> str:
    with pytest.raises(kind) as caught, open_device(url, timeout).open(bundle):
        pass
    return str(caught.value)


def test_a_host_that_cannot_be_reached(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    port = free_port()
    text = refusal(InputError, onnxruntime_bundle, ssh_server.url(port))
    assert text.startswith(f"ssh://{getpass.getuser()}@127.0.0.1:{port}: cannot be reached\nfound: ")
    assert text.endswith("Connection refused")
    assert "cannot be reached" in refusal(InputError, onnxruntime_bundle, "ssh://nowhere.invalid")


def test_the_command_line_tells_what_happened(edgekit: RunEdgeKit, bundle: Path, ssh_server: SshServer) -> None:
    url = ssh_server.url()
    finished = edgekit("verify", bundle, "--device", url, "--json")
    assert finished.code == 0
    assert finished.json["device"] == url
    assert finished.json["executed_by"].endswith(f"on Linux {platform.machine()}")

    port = free_port()
    finished = edgekit("verify", bundle, "--device", f"ssh://127.0.0.1:{port}", "--quiet")
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == (
        f"error: ssh://127.0.0.1:{port}: cannot be reached\n"
        f"found: ssh: connect to host 127.0.0.1 port {port}: Connection refused\n"
    )

    finished = edgekit("bench", bundle, "--device", ssh_server.url(python="/opt/no/python3"), "--quiet")
    assert (finished.code, finished.out) == (1, "")
    name = f"ssh://{getpass.getuser()}@127.0.0.1:{ssh_server.port}"
    first, found, hint = finished.err.splitlines()
    assert first == f"error: {name}: there is no '/opt/no/python3' there"
    assert found.endswith("/opt/no/python3: not found") or "No such file" in found
    assert hint == (f"hint: install Python 3.10 or later there, or name it: {name}?python=/usr/bin/python3.11")


def test_a_key_that_the_host_does_not_take(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    config = ssh_server.client_config("wrong_key", IdentityFile=ssh_server.keys / "stranger")
    text = refusal(InputError, onnxruntime_bundle, ssh_server.url(config=str(config)))
    assert "does not let us in" in text
    assert "Permission denied (publickey)" in text


def test_a_host_key_that_is_unknown_or_another(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    other = ssh_server.keys / "other_hosts"
    for known in ("", f"device {(ssh_server.keys / 'stranger.pub').read_text()}"):
        other.write_text(known)
        config = ssh_server.client_config("wrong_host", UserKnownHostsFile=other)
        text = refusal(InputError, onnxruntime_bundle, ssh_server.url(config=str(config)))
        assert "its host key is not a known one" in text


def test_no_python_there(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    text = refusal(RequirementError, onnxruntime_bundle, ssh_server.url(python="/opt/no/python3"))
    assert "there is no '/opt/no/python3' there" in text
    assert "?python=" in text


def test_something_else_than_python_there(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    text = refusal(RequirementError, onnxruntime_bundle, ssh_server.url(python="false"))
    assert "Python does not run there" in text


@pytest.mark.parametrize("has_numpy", [False, True])
def test_a_python_without_the_runtime(
    has_numpy: bool, onnxruntime_bundle: Bundle, ssh_server: SshServer, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    if has_numpy:
        (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
        installed = Path(np.__file__).parent
        (site / "numpy").symlink_to(installed)
        (site / "numpy.libs").symlink_to(installed.with_name("numpy.libs"))
    text = refusal(
        RequirementError, onnxruntime_bundle, ssh_server.url(python=str(tmp_path / "venv" / "bin" / "python"))
    )
    missing = "onnxruntime" if has_numpy else "numpy"
    assert f"the Python there has no {missing}\n" in text
    assert f"`python -m pip install {missing}` there" in text


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_no_room_there(large_bundle: Bundle, ssh_server: SshServer, tmp_path: Path) -> None:
    python = script(tmp_path / "python", f'ulimit -f 1000; exec {sys.executable} "$@"')
    text = refusal(RequirementError, large_bundle, ssh_server.url(python=python))
    assert "the bundle cannot be copied there" in text
    assert "File too large" in text


def test_a_folder_that_cannot_be_written(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    text = refusal(RequirementError, onnxruntime_bundle, ssh_server.url(folder="/dev/null"))
    assert "the bundle cannot be copied there" in text
    assert "Not a directory: '/dev/null/edgekit-" in text


@pytest.mark.parametrize(
    ("victim", "message"),
    [
        ("check.py --serve", "the bundle's check was killed there"),
        ("sshd", "the connection was lost"),
    ],
)
def test_a_device_that_dies_midway(
    victim: str, message: str, onnxruntime_bundle: Bundle, ssh_server: SshServer
) -> None:
    feeds, _ = next(onnxruntime_bundle.golden())
    with open_device(ssh_server.url()).open(onnxruntime_bundle) as session:
        session.run(feeds)
        victims = [process for process in ssh_server.sessions() if victim in words_of(process)]
        assert victims
        for process in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with pytest.raises(RequirementError, match=message) as caught:
            session.run(feeds)
    assert caught.value.exit_code == 1


def test_what_was_copied_goes_although_what_removes_it_was_killed(
    onnxruntime_bundle: Bundle, ssh_server: SshServer
) -> None:
    with open_device(ssh_server.url()).open(onnxruntime_bundle) as session:
        (landing,) = (process for process in ssh_server.sessions() if words_of(process).startswith(PYTHON_RUNS_LANDING))
        os.kill(landing, signal.SIGKILL)
        with contextlib.suppress(RequirementError):  # the server may or may not hang up before the answer
            session.run(next(onnxruntime_bundle.golden())[0])


PYTHON_RUNS_LANDING = f"{sys.executable} -c import base64,zlib"


def test_a_device_that_hangs(onnxruntime_bundle: Bundle, ssh_server: SshServer) -> None:
    feeds, _ = next(onnxruntime_bundle.golden())
    with open_device(ssh_server.url(), timeout=3).open(onnxruntime_bundle) as session:
        session.run(feeds)
        (check,) = (process for process in ssh_server.sessions() if "check.py --serve" in words_of(process))
        os.kill(check, signal.SIGSTOP)
        with pytest.raises(RequirementError, match="has been silent for 3 s"):
            session.run(feeds)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("when", ["while it copies", "while it runs"])
def test_a_command_that_is_ended(
    when: str, number: signal.Signals, large_bundle: Bundle, ssh_server: SshServer, tmp_path: Path
) -> None:
    stalled = script(tmp_path / "python", f'touch {tmp_path / "reached"}; exec {sys.executable} "$@"')
    if when == "while it runs":
        stalled = sys.executable
    else:
        os.truncate(large_bundle.path / "zz.bin", 300_000_000)  # a file of zeros, which takes a while
    command = [sys.executable, "-c", OPEN, str(large_bundle.path), ssh_server.url(python=stalled)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    if when == "while it runs":
        wait_until(lambda: any("check.py --serve" in words_of(one) for one in ssh_server.sessions()))
    else:
        wait_until(lambda: (tmp_path / "reached").exists())
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode != 0


OPEN = """
import sys
from pathlib import Path
from edgekit.bundle_checks.benchmark import bench_bundle
from edgekit.bundle import read_bundle
from edgekit.cli._signals import interrupted_by_signals
from edgekit.devices import remote
from edgekit.devices.opening import open_device
remote.PATIENCE_SECONDS = 2
with interrupted_by_signals(), open_device(sys.argv[2]).open(read_bundle(Path(sys.argv[1]))):
    pass
"""


@pytest.mark.parametrize(
    "url",
    ["ssh:", "ssh://", "ssh://user:secret@host", "ssh://host:port", "ssh://host/path", "ssh://host?shell=sh"],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InputError, match="is not an address of a device"):
        open_device(url)


def test_an_address_without_slashes_is_told_how_it_is_written() -> None:
    with pytest.raises(InputError) as raised:
        open_device("ssh:me@pi:2222")
    assert str(raised.value).endswith(
        "\nfound: ssh:me@pi:2222\nhint: two slashes stand before the host: ssh://me@pi:2222"
    )


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        open_device(f"ssh://host?config={tmp_path / 'none'}")


def test_an_address_that_would_be_an_option(onnxruntime_bundle: Bundle) -> None:
    assert "cannot be reached" in refusal(InputError, onnxruntime_bundle, "ssh://-oProxyCommand=true")


def test_a_bundle_without_a_check_for_python(digits_bundle: DigitsBundle, ssh_server: SshServer) -> None:
    bundle = read_bundle(digits_bundle("digits-web", "none"))
    assert "has no check.py that could run there" in refusal(RequirementError, bundle, ssh_server.url())
