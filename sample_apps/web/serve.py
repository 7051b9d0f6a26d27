"""Serves a page, bundles and onnxruntime-web on localhost: ``python serve.py BUNDLE``."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

SHARED = Path(__file__).resolve().parent


class Handler(SimpleHTTPRequestHandler):
    """Serves the app's folder at the root, and other folders under the names in ``mounts``.

    Args:
        app: The folder of the page.
        mounts: First part of a URL's path -> the folder that is served there.
    """

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".wasm": "application/wasm"}

    def __init__(self, *args: object, app: Path, mounts: dict[str, Path], **kwargs: object) -> None:
        self.app = app
        self.mounts = mounts
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # passed on unchanged

    def translate_path(self, path: str) -> str:
        """Returns the file of a URL's path; for a path outside of the served folders, a file that does not exist."""
        first, _, rest = unquote(urlsplit(path).path).lstrip("/").partition("/")
        root, inside = (self.mounts[first], rest) if first in self.mounts else (self.app, f"{first}/{rest}")
        file = (root / inside.lstrip("/")).resolve()
        return str(file) if file.is_relative_to(root.resolve()) else str(root / "outside")

    def end_headers(self) -> None:
        """Isolate the page, because browsers allow WebAssembly threads only to isolated pages, and disable caching."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
        """Log only requests that failed."""
        if len(args) > 1 and str(args[1]) >= "400":
            super().log_message(format, *args)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "bundles",
        type=Path,
        nargs="+",
        metavar="BUNDLE",
        help="what `edgekit package MODEL --target web` wrote; the first is /bundle/, each has its folder's name too",
    )
    parser.add_argument("--app", type=Path, default=SHARED, help="the folder of the page (the digits)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (%(default)s)")
    parser.add_argument(
        "--modules", type=Path, default=SHARED / "node_modules", help="where npm installed onnxruntime-web"
    )
    arguments = parser.parse_args()
    for bundle in arguments.bundles:
        if not (bundle / "manifest.json").is_file():
            parser.error(f"{bundle} is not a bundle: there is no manifest.json in it")
    if not (arguments.modules / "onnxruntime-web").is_dir():
        parser.error(f"there is no onnxruntime-web in {arguments.modules}: run `npm install` in {SHARED}")
    mounts = {bundle.resolve().name: bundle for bundle in arguments.bundles}
    mounts |= {"bundle": arguments.bundles[0], "shared": SHARED, "node_modules": arguments.modules}
    handler = partial(Handler, app=arguments.app, mounts=mounts)
    with ThreadingHTTPServer(("127.0.0.1", arguments.port), handler) as server:
        sys.stdout.write(f"http://localhost:{server.server_port}/\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


if __name__ == "__main__":
    main()
