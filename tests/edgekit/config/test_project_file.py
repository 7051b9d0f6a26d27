import re
from pathlib import Path

import pytest

from edgekit.config import (
    Budget,
    GateSettings,
    Inconclusive,
    find_config,
    parse_bytes,
    parse_fraction,
    parse_max_drop,
    read_config,
)
from edgekit.errors import InputError
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.packaging.declared import request_for
from edgekit.preprocessing import AudioPreprocessing, ImagePreprocessing

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
dims = { N = 1, W = "8,16" }
states = { h = "h_next" }
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
    assert digits.shapes.dims == {"N": 1, "W": (8, 16)}
    assert request_for(digits).states == {"h": "h_next"}
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


def test_what_is_declared_for_a_bundle_is_found_by_folder_then_by_name(config: Path) -> None:
    read = read_config(config)
    digits, speech = read.bundles
    assert read.declared(config.parent / "out" / "speech", "digits-ios") is speech
    assert read.declared(config.parent / "moved", "digits-ios") is digits
    assert read.declared(config.parent / "moved", "unknown") is None
    assert read.budget == Budget(size=2_500_000, accuracy=0.98)


MATRIX = """
[defaults]
model = "m.onnx"
targets = ["ios18", "intel-cpu"]
quantize = "int8"
dims = { batch = 1 }
[[bundle]]
name = "small"
[[bundle]]
name = "large"
model = "l.onnx"
target = "web"
quantize = "none"
[[bundle]]
name = "other"
targets = ["web"]
output = "out/other"
"""


def test_targets_as_a_matrix_and_defaults(config: Path) -> None:
    config.write_text(MATRIX)
    bundles = read_config(config).bundles
    folder = config.parent
    assert [(one.name, one.target, one.model.name, one.quantize) for one in bundles] == [
        ("small-ios18", "ios18", "m.onnx", "int8"),
        ("small-intel-cpu", "intel-cpu", "m.onnx", "int8"),
        ("large", "web", "l.onnx", "none"),
        ("other-web", "web", "m.onnx", "int8"),
    ]
    assert [one.output.relative_to(folder).as_posix() for one in bundles] == [
        "bundles/small-ios18",
        "bundles/small-intel-cpu",
        "bundles/large",
        "out/other-web",
    ]
    assert {one.shapes.dims["batch"] for one in bundles} == {1}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\ntargets = ["u"]',
            "bundle a: has target and targets\nexpected: one of them",
        ),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"',
            "bundle a: has no target\nexpected: target or targets, in the bundle or in [defaults]",
        ),
        ('[[bundle]]\nname = "a"\ntarget = "t"', "bundle a: has no model\nexpected: model, in the bundle or in"),
        (
            '[defaults]\nname = "a"\nbudget = {}\noutputs = {}',
            "[defaults]: belongs to a bundle or to the whole file\nfound: budget, name, outputs",
        ),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntargets = ["t"]\n[[bundle]]\nname = "a-t"\nmodel = "m"\ntarget = "t"',
            "two bundles have the same name\nfound: a-t",
        ),
    ],
)
def test_a_matrix_that_cannot_be_read(config: Path, text: str, found: str) -> None:
    config.write_text(text)
    with pytest.raises(InputError) as failure:
        read_config(config)
    assert found in str(failure.value)


def test_how_the_gate_judges(config: Path) -> None:
    assert read_config(config).gate == GateSettings(Inconclusive.WARN, 60.0, None)
    config.write_text('[gate]\ninconclusive = "fail"\ntime_limit = 5\nbaseline = "ci/baseline.json"\n')
    assert read_config(config).gate == GateSettings(Inconclusive.FAIL, 5, config.parent / "ci" / "baseline.json")


def test_memory_that_was_meant_in_megabytes(config: Path) -> None:
    config.write_text("[budget]\nmemory = 80\n")
    with pytest.raises(InputError) as failure:
        read_config(config)
    assert str(failure.value) == (
        f"{config} [budget] memory: is less than any process takes\n"
        'expected: bytes, or a text such as "80 MB"\nfound: 80'
    )


def test_every_budget(config: Path) -> None:
    config.write_text(
        '[budget]\nsize = "1 kB"\naccuracy = 1\naccuracy_drop = "60%"\nsqnr_db = 20\nlatency_ratio = 2\n'
        'latency_ms = 5\nfirst_run_ms = 9.5\nload_ms = 80\nmemory = "90 MB"\ndownload = 700\n'
        'accelerator_share = "95%"\npartitions = 3\nsize_growth = 0.1\naccuracy_fall = 0.01\nlatency_growth = "100%"\n'
        "agreement_db = 12\n"
    )
    assert read_config(config).budget == Budget(
        size=1000,
        accuracy=1.0,
        accuracy_drop=0.6,
        sqnr_db=20.0,
        latency_ratio=2.0,
        latency_ms=5.0,
        first_run_ms=9.5,
        load_ms=80.0,
        memory=90_000_000,
        download=700,
        accelerator_share=0.95,
        partitions=3,
        agreement_db=12.0,
        size_growth=0.1,
        accuracy_fall=0.01,
        latency_growth=1.0,
    )


@pytest.mark.parametrize(
    ("text", "subject", "message"),
    [
        (
            "[budget]\naccuracy_drop = 1",
            "[budget] accuracy_drop",
            "would allow 100% of the samples to be lost\nexpected: a number below 0.5, or a percentage\nfound: 1\n"
            'hint: 1% is written "1%"; where 100% is meant, write "100%"',
        ),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\nbudget = { latency_growth = 0.5 }',
            "bundle a budget latency_growth",
            "would allow 50% more\nexpected: a number below 0.5, or a percentage\nfound: 0.5\n"
            'hint: 0.5% is written "0.5%"; where 50% is meant, write "50%"',
        ),
        (
            "[budget]\naccuracy = 98",
            "budget.accuracy",
            'is not a share\nexpected: a number from 0 to 1, or from 0% to 100%\nfound: 98\nhint: 98% is written "98%"',
        ),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\nbudget = { accuracy_drop = 1.5 }',
            "budget.accuracy_drop",
            "is not a share\nexpected: a number from 0 to 1, or from 0% to 100%\n"
            'found: 1.5\nhint: 1.5% is written "1.5%"',
        ),
    ],
)
def test_shares_that_were_meant_as_percentages(config: Path, text: str, subject: str, message: str) -> None:
    config.write_text(text)
    with pytest.raises(InputError) as failure:
        read_config(config)
    assert str(failure.value) == f"{config} {subject}: {message}"


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
        ("[buget]", "found: unknown key 'buget' (expected 'budget')"),
        ('[budget]\nsize = "2 parsecs"', "found: budget.size: '2 parsecs'"),
        ("budget = 3", "found: budget: 3 is not an object"),
        ("bundle = 3", "found: bundle: 3 is not a list"),
        ('[budget]\naccuracy = "98"', "found: budget.accuracy: '98'"),
        ("[budget]\npartitions = 0", "found: budget.partitions: 0 is less than the minimum of 1"),
        ("[budget]\nload_ms = 0", "found: budget.load_ms: 0 is not greater than 0"),
        (
            '[budget]\nlatency_ms = "5 ms"',
            "found: budget.latency_ms: the text '5 ms' is not a number, which stands without quotes or a unit",
        ),
        (
            '[budget]\npartitions = "2"',
            "found: budget.partitions: the text '2' is not a whole number, which stands without quotes or a unit",
        ),
        ('[gate]\ninconclusive = "maybe"', "found: gate.inconclusive: 'maybe' is not one of pass, warn, fail"),
        ("[gate]\ntime_limit = 0", "found: gate.time_limit: 0 is not greater than 0"),
        ('[[bundle]]\nmodel = "m"', "found: bundle[0]: 'name' is missing"),
        ('[[bundle]]\nname = "../a"\nmodel = "m"\ntarget = "t"', "found: bundle '../a' name: '../a' is not a name of"),
        (
            '[budget]\nsize = "5 KX"',
            "found: budget.size: '5 KX' is not a number of bytes, or a size such as '2.5 MB' (B; kB,",
        ),
        ("[outputs]\nboxes = true", "found: outputs.boxes: True is not false or a text or a list"),
        ('[outputs]\norder = "yxy"', "found: outputs.order: 'yxy' is not one of xy, yx"),
        ('bundle = ["a"]', "found: bundle[0]: 'a' is not an object"),
        ('[preprocessing]\nkind = "video"', "found: preprocessing.kind: 'video' is not one of image, audio"),
        ('[preprocessing]\nkind = "audio"\nscale = 1', "found: preprocessing: 'sample_rate' is missing"),
        ("[preprocessing]\nscale = 1", "found: preprocessing: 'kind' is missing: one of image, audio"),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\n[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"',
            "two bundles have the same name\nfound: a",
        ),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\noutput = "x"\n'
            '[[bundle]]\nname = "b"\nmodel = "m"\ntarget = "t"\noutput = "x"',
            "two bundles have the same output\nfound: ",
        ),
        (
            '[[bundle]]\nname = "Cat"\nmodel = "m"\ntarget = "t"\n[[bundle]]\nname = "cat"\nmodel = "m"\ntarget = "t"',
            "two bundles have names that differ in capital letters alone\nfound: Cat and cat\n"
            "hint: they are one folder on macOS and Windows",
        ),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\noutput = "B\u00fccher"\n'
            '[[bundle]]\nname = "b"\nmodel = "m"\ntarget = "t"\noutput = "bu\u0308cher"',
            "two bundles have outputs that differ in capital letters alone\nfound: ",
        ),
        (
            '[[bundle]]\nname = "a"\nmodel = "m"\ntarget = "t"\noutput = "x"\n'
            '[[bundle]]\nname = "b"\nmodel = "m"\ntarget = "t"\noutput = "x/y"',
            "a bundle lies in the folder of another one\nfound: ",
        ),
    ],
)
def test_a_project_file_that_is_none(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "edgekit.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(found)) as failure:
        read_config(path)
    assert str(failure.value).startswith(f"{path}: ")


def test_how_boxes_are_read_is_declared_for_all_bundles_or_for_one(config: Path) -> None:
    bundle = '[[bundle]]\nname = "{}"\nmodel = "{}.onnx"\ntarget = "t"\n'
    config.write_text(
        '[outputs]\nboxes = "y"\norder = "yx"\n'
        + bundle.format("a", "a")
        + bundle.format("b", "b")
        + '[bundle.outputs]\nboxes = ["places", "chances"]\ncoordinates = "corners"\n'
        + bundle.format("c", "c")
        + "[bundle.outputs]\nboxes = false\n"
    )
    read = read_config(config)
    of_all = DeclaredOutputs(("y",), order="yx")
    of_b = DeclaredOutputs(("places", "chances"), "corners")
    assert [request_for(each).outputs for each in read.bundles] == [of_all, of_b, DeclaredOutputs(())]
    assert read.outputs_of(config.parent / "b.onnx") == of_b
    assert read.outputs_of(config.parent / "other.onnx") == of_all
    assert request_for(read.bundles[0]).options()["outputs"] == {"boxes": ["y"], "order": "yx"}
    assert DeclaredOutputs.parse(DeclaredOutputs(()).as_record(), "") == DeclaredOutputs(())


def test_boxes_that_are_none_and_how_they_are_read(config: Path) -> None:
    config.write_text('[outputs]\nboxes = false\nunit = "pixel"\norder = "xy"')
    with pytest.raises(InputError) as failure:
        read_config(config)
    assert str(failure.value) == (
        f"{config} [outputs]: says how boxes are read, and that there are none\n"
        "expected: boxes = false alone\n"
        "found: order, unit"
    )


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
        (0.5, "50%", '0.5% is written "0.5%"; where 50% is meant, write "50%"'),
    ],
)
def test_a_drop_that_was_meant_as_a_percentage(text: float | str, lost: str, hint: str) -> None:
    with pytest.raises(InputError) as failure:
        parse_max_drop(text, "--max-drop")
    assert str(failure.value) == (
        f"--max-drop: would allow {lost} of the samples to be lost\n"
        f"expected: a number below 0.5, or a percentage\nfound: {text}\nhint: {hint}"
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (5, 5),
        ("5B", 5),
        ("2.5 MB", 2_500_000),
        ("1 kB", 1000),
        ("1 GB", 10**9),
        ("300", 300),
        ("10KB", 10_000),
        ("10k", 10_000),
        ("10 KiB", 10_240),
        ("3 mb", 3_000_000),
        ("3 MiB", 3_145_728),
        ("1Gi", 2**30),
    ],
)
def test_bytes(text: int | str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "MB", "5 XB", "5iB", "1.2.3 MB", "-5 MB", "5 mebi"])
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(ValueError, match=r"a size is a number of bytes, or a text such as '2.5 MB' .* MiB, GiB of"):
        parse_bytes(text)


@pytest.mark.parametrize("size", ["9" * 400, "9" * 400 + " MB", "9223372036854775808", 2**63])
def test_a_size_of_more_than_64_bits_is_refused(size: int | str) -> None:
    with pytest.raises(ValueError, match=r"a size is a number of 64 bits"):
        parse_bytes(size)
    assert parse_bytes("9223372036854775807") == 2**63 - 1


@pytest.mark.parametrize("text", ["10 KB", "10k", "10KiB", "3 MiB", "300 B"])
def test_a_budget_takes_every_unit(tmp_path: Path, text: str) -> None:
    file = tmp_path / "edgekit.toml"
    file.write_text(f'[budget]\nsize = "{text}"\n')
    assert read_config(file).budget.size == parse_bytes(text)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (
            r'model = "C:\Users\me\net.onnx"',
            "a backslash in double quotes begins an escape: write / between folders, or put the path in single quotes",
        ),
        (r"model = 'C:\Users\me\net.onnx", None),  # a quote is missing
        ("model = net.onnx", None),
    ],
)
def test_a_path_of_windows_in_double_quotes(line: str, hint: str | None, tmp_path: Path) -> None:
    file = tmp_path / "edgekit.toml"
    file.write_text(f'[[bundle]]\nname = "a"\n{line}\n')
    with pytest.raises(InputError) as refused:
        read_config(file)
    assert refused.value.message.startswith("is not TOML: ")
    assert refused.value.hint == hint


def test_a_size_that_is_none_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "edgekit.toml"
    file.write_text('[[bundle]]\nname = "a"\nmodel = "m.onnx"\ntarget = "web"\ndims = { batch = "one" }\n')
    with pytest.raises(InputError) as raised:
        read_config(file)
    assert str(raised.value) == (f"{file} bundle a dims 'batch': 'one' is not a size\nexpected: a whole number from 1")
