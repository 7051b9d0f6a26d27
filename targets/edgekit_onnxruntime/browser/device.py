"""onnxruntime-web in headless Chromium: ``browser:wasm``, ``browser:webgpu``, ``browser:jsep``.

Chromium opens a page that EdgeKit serves on 127.0.0.1. The page loads onnxruntime-web and the bundle's model, and
executes the tasks that it is sent (see :mod:`edgekit_onnxruntime.browser.server`). Chromium is the system's, and
onnxruntime-web the one that npm installed: nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from shlex import quote
from typing import Self

from edgekit.bundle import Bundle
from edgekit.device import Device, Session
from edgekit.errors import InputError, RequirementError
from edgekit.files.atomic import temporary_folder
from edgekit.files.home import home_folder
from edgekit_onnxruntime.browser.chromium import chromium, chromium_version, find_chromium
from edgekit_onnxruntime.browser.server import PageServer
from edgekit_onnxruntime.browser.session import MODELS, SHOWN, BrowserSession, Tab

VARIABLE = "EDGEKIT_ORT_WEB"
"""The environment variable that names the folder of onnxruntime-web, which contains its ``package.json``."""
PACKAGE = "onnxruntime-web"


@dataclass(frozen=True)
class Build:
    """One of the builds that onnxruntime-web ships."""

    name: str
    module: str
    provider: str
    flags: tuple[str, ...]
    """The flags that Chromium needs for the build."""


_WEBGPU_FLAGS = ("--enable-unsafe-webgpu", "--enable-unsafe-swiftshader")
"""Flags that enable WebGPU on Linux too, in Chromium's software implementation if there is no GPU."""
BUILDS = {
    build.name: build
    for build in (
        Build("wasm", "ort.wasm.min.mjs", "wasm", ("--disable-gpu",)),
        Build("webgpu", "ort.webgpu.min.mjs", "webgpu", _WEBGPU_FLAGS),
        Build("jsep", "ort.all.min.mjs", "webgpu", _WEBGPU_FLAGS),
    )
}
"""The builds by name: WebAssembly; ONNX Runtime's WebGPU provider in C++; and the older one in JavaScript."""


def find_library() -> Path:
    """The folder of onnxruntime-web: :data:`VARIABLE`, else where npm installs it with EdgeKit's cache as the prefix.

    Raises:
        InputError: There is no such folder.
    """
    named = os.environ.get(VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home_folder() / ".cache") / "edgekit"
    folder = Path(named) if named else cache / "node_modules" / PACKAGE
    # For a folder that may not be read, os.path says that nothing is there, while pathlib raises.
    if not os.path.isfile(folder / "package.json") or not os.path.isdir(folder / "dist"):  # noqa: PTH112, PTH113
        raise InputError(
            f"there is no {PACKAGE} here",
            subject="--device browser",
            expected=f"its package.json and dist in {folder}",
            hint=f"`npm install --prefix {quote(str(cache))} {PACKAGE}` installs it; {VARIABLE} names another folder",
        )
    return folder


class BrowserDevice(Device):
    """Headless Chromium on this machine.

    Args:
        build: The build of onnxruntime-web.
    """

    contract_version = 1
    url_form = "browser:[wasm|webgpu|jsep]"

    def __init__(self, build: Build) -> None:
        self._build = build

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device that ``browser:BUILD`` names; ``browser`` alone is WebAssembly.

        Raises:
            InputError: There is no such build.
        """
        name = url.partition(":")[2] or next(iter(BUILDS))
        if name not in BUILDS:
            raise InputError(
                "there is no such build of onnxruntime-web",
                subject="--device",
                expected=", ".join(f"browser:{build}" for build in BUILDS),
                found=url,
            )
        return cls(BUILDS[name])

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        """A session in Chromium with the bundle's model; browser, profile and server are removed afterwards.

        Raises:
            InputError: Chromium or onnxruntime-web is missing, or cannot be started.
            RequirementError: There is no WebGPU, or onnxruntime-web does not load the model.
        """
        if bundle.main.suffix not in (".onnx", ".ort"):
            raise RequirementError(
                "a browser runs ONNX models only",
                subject=bundle.path,
                expected="a bundle of the target web or onnxruntime",
                found=f"{bundle.main.name}, built for {bundle.profile_name}",
            )
        with self.page(bundle.main.parent, bundle.path) as (tab, server, executed_by):
            yield BrowserSession(tab, server, bundle, executed_by)

    @contextmanager
    def page(self, models: Path, subject: Path) -> Iterator[tuple[Tab, PageServer, str]]:
        """A page in Chromium that has loaded onnxruntime-web, its server, and what executes there, in words.

        Args:
            models: The folder of the models that sessions with the page can load.
            subject: What errors name.

        Raises:
            InputError: Chromium or onnxruntime-web is missing, or cannot be started.
            RequirementError: There is no WebGPU.
        """
        library, program = find_library(), find_chromium()
        version = chromium_version(program)
        pages = as_file(files("edgekit_onnxruntime.browser").joinpath("web"))
        with pages as page, temporary_folder() as shown:
            server = PageServer({"page": page, "ort": library / "dist", MODELS: models, SHOWN: shown})
            with server.running(), chromium(program, server.url("page", "page.html"), self._build.flags) as browser:
                tab = Tab(browser, server.exchange, subject, self.timeout)
                tab.start(server.url("ort", self._build.module), self._build.provider)
                yield tab, server, f"{PACKAGE} {tab.library_version} ({self._build.name} build), {tab.unit}, {version}"
