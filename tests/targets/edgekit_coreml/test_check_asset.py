"""The part of a bundle's check that needs no Mac: what it hands to Core ML."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from PIL import Image

import edgekit
from edgekit.model import Model
from edgekit.preprocessing import ImagePreprocessing

CHECK = Path(__file__).parents[3] / "targets/edgekit_coreml/assets/check.py"


@pytest.mark.parametrize(
    ("shape", "color", "mean"),
    [
        ("1, 3, 4, 5", "RGB", (0.5, 0.4, 0.3)),
        ("1, 3, 4, 5", "BGR", (0.5, 0.4, 0.3)),
        ("1, 4, 5, 3", "BGR", (0.5,)),
        ("4, 5", "GRAY", (0.1,)),
    ],
)
def test_pictures_are_those_that_the_golden_data_were_made_from(
    shape: str, color: str, mean: tuple[float, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(edgekit.__file__).parent / "device_check"  # in a bundle its files lie next to the check
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    as_picture = runpy.run_path(str(CHECK), run_name="check")["as_picture"]
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> f (float[{shape}] x) => (float[{shape}] y) {{ y = Relu (x) }}'
    )
    (spec,) = Model(ir.from_proto(model)).inputs
    declared = ImagePreprocessing(scale=1 / 255, mean=mean, std=(0.25,), color=color).resolve(spec)
    channels = () if color == "GRAY" else (3,)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, *channels)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    array = declared.decoder(spec)(tmp_path / "picture.png")
    np.testing.assert_array_equal(np.asarray(as_picture(array, declared.as_record())), pixels)


@pytest.mark.skipif(sys.platform == "darwin", reason="it runs there")
def test_on_other_systems_it_says_where_it_runs() -> None:
    """Nothing else is printed, and nothing needs to be installed."""
    found = subprocess.run([sys.executable, "-I", CHECK], capture_output=True, text=True, check=False)
    said = "Core ML is on macOS only; on other systems `edgekit verify` runs EdgeKit's reference runtime\n"
    assert (found.returncode, found.stdout, found.stderr) == (1, "", said)
