import re
from pathlib import Path

import pytest

from edgekit.config import Budget, find_config, parse_bytes, parse_fraction, parse_max_drop, read_config
from edgekit.errors import InputError
from edgekit.preprocessing import AudioPreprocessing, ImagePreprocessing
from edgekit.project import request_for

FULL = """
[preprocessing]
kind = "image"
scale = "1/255"

[budget]
size = "2.5 MB"
accuracy = "98%"

[[bundle]]
name = "digits-ios"
model = "models/digits.onnx"
target = "ios18"
data = "samples"
quantize = "int8"
max_drop = "0.5%"
dims = { N = 1 }
shapes = { x = [1, 3, 8, 8] }
labels = "labels.txt"
options = { image = "yes" }
[bundle.budget]
size = 900_000
latency_ratio = 0.5

[[bundle]]
name = "speech"
model = "speech.onnx"
target = "intel-cpu"
output = "out/speech"
[bundle.preprocessing]
kind = "audio"
sample_rate = 16000
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "edgekit.toml"
    path.write_text(FULL)
    return path


def test_bundles_are_read_with_what_holds_for_all(config: Path) -> None:
    read = read_config(config)
    digits, speech = read.bundles
    folder = config.parent
    assert (digits.model, digits.data, digits.labels) == (
        folder / "models" / "digits.onnx",
        folder / "samples",
        folder / "labels.txt",
    )
    assert digits.output == folder / "bundles" / "digits-ios"
    assert (digits.quantize, digits.max_drop, digits.precision) == ("int8", 0.005, "auto")
    assert digits.shapes.dims == {"N": 1}
    assert digits.shapes.shapes == {"x": [1, 3, 8, 8]}
    assert request_for(digits).target_options == {"image": "yes"}
    assert digits.preprocessing == ImagePreprocessing(scale=1 / 255)
    assert digits.budget == Budget(size=900_000, accuracy=0.98, latency_ratio=0.5)
    assert speech.preprocessing == AudioPreprocessing(sample_rate=16000)
    assert speech.output == folder / "out" / "speech"
    assert speech.budget == Budget(size=2_500_000, accuracy=0.98)


def test_a_model_s_preprocessing_is_its_bundle_s(config: Path) -> None:
    read = read_config(config)
    assert read.preprocessing_of(config.parent / "speech.onnx") == AudioPreprocessing(sample_rate=16000)
    assert read.preprocessing_of(config.parent / "unknown.onnx") == ImagePreprocessing(scale=1 / 255)
    assert read.preprocessing_of(None) == ImagePreprocessing(scale=1 / 255)


def test_a_bundle_s_budget_is_found_by_folder_then_by_name(config: Path) -> None:
    read = read_config(config)
    assert read.budget_of(config.parent / "out" / "speech", "digits-ios").size == 2_500_000
    assert read.budget_of(config.parent / "moved", "digits-ios").size == 900_000
    assert read.budget_of(config.parent / "moved", "unknown") == Budget(size=2_500_000, accuracy=0.98)


def test_the_nearest_project_file_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "edgekit.toml").touch()
    assert find_config(inner) == (tmp_path / "edgekit.toml").resolve()
    (tmp_path / "a" / "edgekit.toml").touch()
    assert find_config(inner) == (tmp_path / "a" / "edgekit.toml").resolve()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("budget = ", "is not TOML: "),
        ("[buget]", "found: Additional properties are not allowed ('buget' was unexpected)"),
        ('[budget]\nsize = "2 parsecs"', "found: budget.size: '2 parsecs'"),
        ("[budget]\naccuracy = 98", "found: budget.accuracy: 98"),
        ('[[bundle]]\nname = "a"\nmodel = "m"', "found: bundle[0]: 'target' is a required property"),
        ('[[bundle]]\nname = "../a"\nmodel = "m"\ntarget = "t"', "found: bundle[0].name: '../a' does not match"),
        ('[preprocessing]\nkind = "video"', "found: preprocessing.kind: 'video' is not one of ['image', 'audio']"),
        ('[preprocessing]\nkind = "audio"\nscale = 1', "found: preprocessing: 'sample_rate' is a required property"),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\n[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"',
            "two bundles have the same name\nfound: a",
        ),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\noutput = "x"\n'
            '[[bundle]]\nname = "b"\nmodel = "m"\ntarget = "t"\noutput = "x"',
            "two bundles have the same output\nfound: ",
        ),
    ],
)
def test_a_project_file_that_is_none(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "edgekit.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(found)) as failure:
        read_config(path)
    assert str(failure.value).startswith(f"{path}: ")


def test_a_missing_project_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no project file"):
        read_config(tmp_path / "edgekit.toml")


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.5 %", 0.005), ("0.25", 0.25), (0, 0.0), ("100%", 1.0)])
def test_shares(text: float | str, share: float) -> None:
    assert parse_fraction(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["101%", "-1%", "2", "nan", "one", ""])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the reader's caller says which of all texts it was
        parse_fraction(text)


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), (0.49, 0.49), ("0.01", 0.01), ("100%", 1.0), ("50 %", 0.5)])
def test_accuracy_that_may_be_lost(text: float | str, share: float) -> None:
    assert parse_max_drop(text, "--max-drop") == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "lost", "hint"),
    [
        ("1", "100%", "1% is written 1%; where 100% is meant, write 100%"),
        (0.5, "50%", "0.5% is written 0.5%; where 50% is meant, write 50%"),
    ],
)
def test_a_drop_that_was_meant_as_a_percentage(text: float | str, lost: str, hint: str) -> None:
    with pytest.raises(InputError) as failure:
        parse_max_drop(text, "--max-drop")
    assert str(failure.value) == (
        f"--max-drop: would allow {lost} of the samples to be lost\n"
        f"expected: a number below 0.5, or a percentage\nfound: {text}\nhint: {hint}"
    )


@pytest.mark.parametrize(("text", "count"), [(5, 5), ("5B", 5), ("2.5 MB", 2_500_000), ("1 kB", 1000), ("1 GB", 10**9)])
def test_bytes(text: int | str, count: int) -> None:
    assert parse_bytes(text) == count
