from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import openvino
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SECONDS = 60_000  # in ms, as Playwright counts


@pytest.fixture(scope="session")
def test_digits(sample_apps: Path) -> dict[Path, str]:
    """The labelled test digits: picture -> digit."""
    folder = sample_apps / "digits" / "samples" / "test"
    lines = (folder / "labels.csv").read_text().splitlines()[1:]
    return {folder / name: label for name, label in (line.split(",") for line in lines)}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must not complain on its console."""
    complaints: list[str] = []
    opened = browser.new_page()
    opened.set_default_timeout(SECONDS)
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    opened.close()
    assert complaints == []


@pytest.fixture
def serve(sample_apps: Path, node_modules: Path, page: Page) -> Callable[..., AbstractContextManager[str]]:
    """Serves bundles with a page, by default that of the digits, and tells the URL.

    The page is left before the server ends: what it still loads, such as golden data, would complain of it.
    """

    @contextmanager
    def served(*bundles: Path, app: Path = sample_apps / "web") -> Iterator[str]:
        program = [sys.executable, sample_apps / "web" / "serve.py", *bundles, "--app", app]
        program += ["--port", "0", "--modules", node_modules]
        with subprocess.Popen(list(map(str, program)), stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                yield server.stdout.readline().strip()
                page.goto("about:blank")
            finally:
                server.terminate()

    return served


@pytest.fixture(scope="session")
def fetched_app(sample_apps: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """A copy of an app's folder, by its name, in which the script that fetches its models has run."""

    def fetched(name: str, script: str) -> Path:
        copy = tmp_path_factory.mktemp("sample_apps")
        shutil.copytree(sample_apps / name, copy / name, ignore=shutil.ignore_patterns("bundles", "fetched"))
        for shared in ("packages.py", "intel", "web"):
            (copy / shared).symlink_to(sample_apps / shared)
        command = [sys.executable, str(copy / name / script)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "cannot be downloaded" in done.stderr:
            pytest.skip(done.stderr.strip().splitlines()[0])
        assert done.returncode == 0, done.stderr
        return copy / name

    return fetched


@pytest.fixture(scope="session")
def cpp(sample_apps: Path, shared_folder: Callable[[str], AbstractContextManager[Path]]) -> Callable[[str], Path]:
    """Compiles a C++ program by its name, and gives its file; what the programs share is compiled once a run."""
    headers = {
        "nlohmann-json3-dev": Path("/usr/include/nlohmann/json.hpp"),
        "libstb-dev": Path("/usr/include/stb/stb_image.h"),
    }
    missing = [tool for tool in ("cmake", "c++") if not shutil.which(tool)]
    missing += [name for name, header in headers.items() if not header.is_file()]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (`make tools` installs what the sample apps need)")

    def cmake(*arguments: object) -> None:
        done = subprocess.run(["cmake", *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning:" not in done.stderr

    package = f"-DOpenVINO_DIR={Path(openvino.__file__).parent / 'cmake'}"
    with shared_folder("cpp") as build:
        cmake("-S", sample_apps / "intel" / "cpp", "-B", build, package, "-DCMAKE_BUILD_TYPE=Release")

    def compiled(program: str) -> Path:
        with shared_folder("cpp") as build:
            cmake("--build", build, "--target", program)
        return build / program

    return compiled
