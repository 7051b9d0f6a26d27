"""Makes the picture of the README: the beginning of a bundle's report.

    python benchmarks/readme_pictures.py [--out docs/pictures]

Packages the sample model in a temporary folder, and has Chromium (by Playwright) take a picture of the report.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import edgekit

DIGITS = Path(__file__).parents[1] / "sample_apps" / "digits"
VIEW = {"width": 1200, "height": 672}
"""Size of the window in pixels: it ends before the latency, which depends on the machine."""


def picture(report: Path, output: Path) -> None:
    """Saves a picture of the report in a window of the size :data:`VIEW`."""
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEW)
        page.goto(report.as_uri())
        page.screenshot(path=output)
        browser.close()


def main() -> None:
    """Packages, reports and takes the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        bundle = edgekit.package(
            DIGITS / "digits_torchscript.onnx",
            "ios18",
            Path(scratch) / "digits-ios18",
            data=DIGITS / "samples" / "calibration",
            verify_data=DIGITS / "samples" / "test",
            quantize="int8",
            dims={"batch": 1},
            labels=DIGITS / "labels.txt",
        )
        picture(edgekit.report(bundle, Path(scratch) / "report.html"), out / "report.png")


if __name__ == "__main__":
    main()
