"""Pictures, classes and texts at a package's interface."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import edgekit_coreml
from edgekit.errors import InputError, RequestError
from edgekit.model import Model
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.preprocessing import ImagePreprocessing
from edgekit.progress import Progress
from edgekit.registry import find_profile
from edgekit.target import Artifact, BuildOptions
from edgekit_mlruntime.picture import Picture

LABELS = ("cat", "dog", "Uhu, großer", "newt")
ARRAYS = {
    "NCHW": "float[1, 3, 6, 8] image",
    "NHWC": "float[1, 6, 8, 3] image",
    "HWC": "float[6, 8, 3] image",
    "HW": "float[6, 8] image",
}

Built = Callable[..., Artifact]
RunEdgeKit = Callable[..., Any]


def classifier_model(layout: str = "NCHW", end: str = "scores = Identity (raw)") -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> f ({ARRAYS[layout]}) => (float[1, 4] scores) {{
        shape = Constant <value_ints = [1, -1]> ()
        flat = Reshape (image, shape)
        raw = MatMul (flat, w)
        {end}
        }}"""
    )
    count = 48 if layout == "HW" else 144
    weights = np.random.default_rng(5).standard_normal((count, 4), dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


@pytest.fixture
def build(tmp_path: Path) -> Built:
    """Builds a model with options, in float32."""

    def built(model: onnx.ModelProto, **options: object) -> Artifact:
        target, profile = find_profile("ios17")
        return target.build(Model(ir.from_proto(model)), profile, tmp_path, BuildOptions("float32", **options))

    return built


def resolved(model: onnx.ModelProto, **declared: object) -> ImagePreprocessing:
    (spec,) = Model(ir.from_proto(model)).inputs
    return ImagePreprocessing(**declared).resolve(spec)


def expected(model: onnx.ModelProto, image: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    scores = session.run(["scores"], {"image": image})[0]
    return np.asarray(scores)


def without_contract(package: Path) -> edgekit_coreml.Runner:
    """The package as an application sees it: with pixels going in."""
    file = package / "Data/com.apple.CoreML/model.mlmodel"
    message = coremltools.utils.load_spec(str(file))
    del message.description.metadata.userDefined["edgekit.io"]
    file.write_bytes(message.SerializeToString())
    return edgekit_coreml.load(package)


@pytest.mark.parametrize(
    ("layout", "color"), [("NCHW", "RGB"), ("NCHW", "BGR"), ("NHWC", "RGB"), ("HWC", "BGR"), ("HW", "GRAY")]
)
def test_pixels_become_what_the_model_was_trained_on(layout: str, color: str, build: Built) -> None:
    model = classifier_model(layout)
    mean, std = ([0.4], [0.2]) if color == "GRAY" else ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    image = resolved(model, scale=1 / 255, mean=tuple(mean), std=tuple(std), color=color)
    artifact = build(model, options={"image": "yes"}, preprocessing=image)
    pixels = np.random.default_rng(1).integers(0, 256, (6, 8, len(mean))).astype(np.float32)
    fed = (pixels / 255 - np.float32(mean)) / np.float32(std)
    fed = {"NCHW": fed.transpose(2, 0, 1)[None], "NHWC": fed[None], "HWC": fed, "HW": fed[..., 0]}[layout]
    want = expected(model, fed.astype(np.float32))
    in_terms_of_onnx = edgekit_coreml.load(artifact.main).run({"image": fed.astype(np.float32)})
    np.testing.assert_allclose(in_terms_of_onnx["scores"], want, rtol=1e-4, atol=1e-4)
    on_the_device = without_contract(artifact.main).run({"image": pixels.transpose(2, 0, 1)[None]})
    np.testing.assert_allclose(on_the_device["scores"], want, rtol=1e-4, atol=1e-4)


def test_an_integer_input_takes_the_pixels_themselves(build: Built) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (uint8[1, 3, 2, 2] image) => (float[1, 3, 2, 2] y)
        { y = Cast <to = 1> (image) }"""
    )
    artifact = build(model, options={"image": "yes"}, preprocessing=resolved(model, scale=1.0))
    pixels = np.arange(12, dtype=np.uint8).reshape(1, 3, 2, 2) * 20
    np.testing.assert_array_equal(edgekit_coreml.load(artifact.main).run({"image": pixels})["y"], pixels)


def test_the_description_says_what_goes_in_and_comes_out(build: Built) -> None:
    model = classifier_model()
    texts = {"author": "A. Uthor", "license": "MIT", "description": "Tells animals apart", "version": "1.2"}
    options = {"image": "yes", "classifier": "yes", **texts}
    image = resolved(model, scale=1.0, color="BGR")
    artifact = build(model, options=options, labels=LABELS, preprocessing=image)
    description = coremltools.utils.load_spec(str(artifact.main)).description
    (picture,) = description.input
    colors = coremltools.proto.FeatureTypes_pb2.ImageFeatureType
    assert (picture.type.imageType.height, picture.type.imageType.width) == (6, 8)
    assert picture.type.imageType.colorSpace == colors.BGR
    assert picture.shortDescription == "BGR picture; image: float32 [1, 3, 6, 8], computed from its pixels"
    metadata = description.metadata
    assert [metadata.author, metadata.license, metadata.shortDescription, metadata.versionString] == [*texts.values()]
    assert json.loads(metadata.userDefined["edgekit.labels"]) == list(LABELS)
    assert description.predictedFeatureName == "classLabel"
    assert description.predictedProbabilitiesName == "classLabel_probs"
    assert {feature.name: feature.type.WhichOneof("Type") for feature in description.output} == {
        "classLabel": "stringType",
        "classLabel_probs": "dictionaryType",
        "scores": "multiArrayType",
    }


def test_labels_alone_are_metadata(build: Built) -> None:
    artifact = build(classifier_model(), labels=LABELS, options={"classifier": "no"})
    description = coremltools.utils.load_spec(str(artifact.main)).description
    assert json.loads(description.metadata.userDefined["edgekit.labels"]) == list(LABELS)
    assert [feature.name for feature in description.output] == ["scores"]


@pytest.mark.parametrize(
    "end", ["scores = Identity (raw)", "scores = Softmax <axis = 1> (raw)", "scores = Sigmoid (raw)"]
)
def test_a_classifier_tells_the_class_and_its_probability(end: str, build: Built) -> None:
    model = classifier_model(end=end)
    artifact = build(model, options={"classifier": "yes"}, labels=LABELS)
    image = np.random.default_rng(2).standard_normal((1, 3, 6, 8), dtype=np.float32) * np.float32(0.1)
    scores = expected(model, image)
    results = edgekit_coreml.load(artifact.main).run({"image": image})
    probabilities = scores if "Identity" not in end else np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(results["scores"], scores, rtol=1e-4, atol=1e-5)
    assert results["classLabel"] == LABELS[int(scores.argmax())]
    assert list(results["classLabel_probs"]) == list(LABELS)
    np.testing.assert_allclose(list(results["classLabel_probs"].values()), probabilities[0], rtol=1e-4)


def test_logits_and_their_softmax_make_one_classifier(build: Built) -> None:
    model = classifier_model(end="scores = Identity (raw) shares = Softmax <axis = 1> (raw)")
    model.graph.output.append(onnx.helper.make_tensor_value_info("shares", onnx.TensorProto.FLOAT, [1, 4]))
    artifact = build(model, labels=LABELS)
    image = np.random.default_rng(2).standard_normal((1, 3, 6, 8), dtype=np.float32) * np.float32(0.1)
    scores = expected(model, image)
    results = edgekit_coreml.load(artifact.main).run({"image": image})
    np.testing.assert_allclose(results["scores"], scores, rtol=1e-4, atol=1e-5)
    assert results["classLabel"] == LABELS[int(scores.argmax())]
    shares = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(list(results["classLabel_probs"].values()), shares[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": {"image": "yes"}}, "image=yes: how pixels become the input is not known"),
        ({"options": {"image": "maybe"}}, "image=maybe: cannot be used\nexpected: yes or no"),
        ({"options": {"classifier": "yes"}}, "classifier=yes: the classes have no names"),
        ({"options": {"classifier": "yes"}, "labels": ("a", "b")}, "one output with 2 numbers"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, object], message: str, build: Built) -> None:
    with pytest.raises(InputError, match=message):
        build(classifier_model(), **options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "--option image=true: cannot be used\nexpected: yes or no\n"),
        (["--option", "image=yes"], "--option image=yes: how pixels become the input is not known\n"),
        (["--option", "classifier=yes"], "--option classifier=yes: the classes have no names\n"),
    ],
)
def test_options_are_judged_before_the_long_work(
    options: list[str], error: str, tmp_path: Path, edgekit: RunEdgeKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(classifier_model(), "animals.onnx")
    Path("three.txt").write_text("a\nb\nc\n")
    finished = edgekit("package", "animals.onnx", "--target", "ios18", *(options or ["--option", "image=true"]))
    assert finished.code == 2
    assert f"error: {error}" in finished.err
    assert "simplify" not in finished.err
    assert ("load" in finished.err) == bool(options)


def test_a_state_is_described_as_what_becomes_of_it(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[1, 3] x, float[1, 3] h) => (float[1, 3] y, float[1, 3] after) { after = Add(x, h) y = Tanh(after) }""")
    target, profile = find_profile("ios18")
    artifact = target.build(Model(ir.from_proto(proto), states={"h": "after"}), profile, tmp_path, BuildOptions())
    (state,) = coremltools.utils.load_spec(str(artifact.main)).description.state
    assert state.shortDescription == "h: float32 [1, 3], zero at first, then after"


def test_a_classifier_needs_an_output_for_its_labels() -> None:
    options = BuildOptions(options={"classifier": "yes"}, labels=LABELS[:3])
    with pytest.raises(RequestError) as failure:
        find_profile("ios18")[0].require_options(options, Model(ir.from_proto(classifier_model())))
    assert str(failure.value) == (
        "--option classifier=yes: the model cannot be made a classifier\n"
        "expected: one output with 3 numbers, as many as there are labels\nfound: scores: float32 1×4"
    )


def test_a_bundle_with_all_of_it_is_verified_through_the_preprocessing(tmp_path: Path) -> None:
    onnx.save(classifier_model(), tmp_path / "animals.onnx")
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    request = PackageRequest(
        tmp_path / "animals.onnx",
        "ios18",
        tmp_path / "bundle",
        quantize="palette8",
        labels=tmp_path / "labels.txt",
        preprocessing=ImagePreprocessing(1 / 255, (0.5,), (0.25,)),
        target_options={"image": "yes", "classifier": "yes", "author": "A. Uthor"},
    )
    manifest = package(request, Progress()).manifest
    assert manifest["model"]["kind"] == "quantized"
    assert manifest["options"]["target"] == dict(request.target_options)
    assert manifest["accuracy"]["outputs"][0]["sqnr_db"] > 35
    (built,) = (stage["record"] for stage in manifest["stages"] if stage["name"] == "build")
    assert built["image_input"]
    assert built["classifier"]
    assert built["compressed"] == []
    assert built["warnings"] == ["--quantize palette8: no weights are large enough to be compressed"]


def pixels_as_input(image: ImagePreprocessing, off: float = 0.0) -> dict[str, np.ndarray]:
    pixels = np.random.default_rng(3).integers(0, 256, (1, 3, 6, 8)) + off
    return {"image": ((pixels * image.scale - image.mean[0]) / image.std[0]).astype(np.float32)}


def test_pictures_and_classes_are_the_interface_where_they_are_known(build: Built) -> None:
    model = classifier_model()
    image = resolved(model, scale=1 / 255, mean=(0.485,), std=(0.229,))
    artifact = build(model, labels=LABELS, preprocessing=image, examples=(pixels_as_input(image),))
    description = coremltools.utils.load_spec(str(artifact.main)).description
    assert description.input[0].type.WhichOneof("Type") == "imageType"
    assert description.predictedFeatureName == "classLabel"


def test_inputs_that_no_pixels_become_stay_arrays(build: Built) -> None:
    model = classifier_model()
    image = resolved(model, scale=1 / 255, mean=(0.485,), std=(0.229,))
    artifact = build(model, preprocessing=image, examples=(pixels_as_input(image, off=0.4),))
    assert not artifact.record["image_input"]


def test_what_is_switched_off_stays_off(build: Built) -> None:
    model = classifier_model()
    image = resolved(model, scale=1 / 255)
    off = {"image": "no", "classifier": "no"}
    artifact = build(model, labels=LABELS, preprocessing=image, examples=(pixels_as_input(image),), options=off)
    assert (artifact.record["image_input"], artifact.record["classifier"]) == (False, False)


def test_labels_that_no_output_scores_make_no_classifier(build: Built) -> None:
    assert not build(classifier_model(), labels=("cat", "dog")).record["classifier"]


def test_a_label_that_is_that_of_the_greatest_score_leaves_the_classifier(build: Built) -> None:
    graph = """
    g (float[1, 3] x) => (int64[1] label, float[1, 3] probabilities) <int64[3] classes = {4, 5, 6}> {
        scores = Neg(x)
        place = ArgMax <axis = 1, keepdims = 0> (scores)
        label = Gather(classes, place)
        probabilities = Softmax(scores)
    }
    """
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {graph}')
    assert build(model, labels=("four", "five", "six")).record["classifier"]


def test_a_model_with_a_label_of_its_own_gets_no_other(build: Built) -> None:
    graph = """
    g (float[1, 3] x) => (int64[1] label, float[1, 3] distances) {
        distances = Abs(x)
        label = ArgMin <axis = 1, keepdims = 0> (distances)
    }
    """
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {graph}')
    artifact = build(model, labels=("near", "far", "farther"))
    assert not artifact.record["classifier"]


def test_what_the_file_states_of_itself_is_in_the_package(build: Built) -> None:
    model = classifier_model()
    stated = {"author": "Stated", "license": "MIT", "stride": "32", "edgekit.io": "not ours"}
    onnx.helper.set_model_props(model, stated)
    metadata = coremltools.utils.load_spec(str(build(model, options={"author": "Given"}).main)).description.metadata
    assert (metadata.author, metadata.license, metadata.userDefined["stride"]) == ("Given", "MIT", "32")
    assert json.loads(metadata.userDefined["edgekit.io"])["inputs"][0]["name"] == "image"


def test_an_option_that_the_target_lacks_is_refused(tmp_path: Path) -> None:
    request = PackageRequest(tmp_path / "m.onnx", "onnxruntime", tmp_path / "b", target_options={"image": "yes"})
    with pytest.raises(InputError, match="--option image: target onnxruntime has no such option"):
        package(request, Progress())


def test_pixels_of_a_picture() -> None:
    picture = Picture(scale=0.5, mean=(1.0, 2.0, 3.0), std=(2.0, 4.0, 8.0), color="RGB", layout="NHWC")
    pixels = np.array([10.0, 20.0, 30.0]).reshape(1, 3, 1, 1)
    fed = np.array([(5 - 1) / 2, (10 - 2) / 4, (15 - 3) / 8], np.float32).reshape(1, 1, 1, 3)
    np.testing.assert_array_equal(picture.pixels(fed), pixels)


@pytest.mark.parametrize("name", ["image", "classifier"])
def test_pictures_and_classes_are_for_fixed_shapes(name: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }'
    )
    target, profile = find_profile("ios18")
    open_model = Model(ir.from_proto(model), open_dims={"N": range(1, 9)})
    with pytest.raises(InputError) as caught:
        target.build(open_model, profile, tmp_path, BuildOptions(options={name: "yes"}, labels=LABELS))
    assert str(caught.value).startswith(f"--option {name}=yes: is for fixed shapes, and dimension 'N' stays open")


@pytest.mark.parametrize("version", [13, 14, 15, 26])
def test_a_mac_is_a_target_by_its_version(version: int) -> None:
    """coremltools gives the iOS of the same generation and macOS one name."""
    _, profile = find_profile(f"macos{version}")
    same = coremltools.target[f"macOS{version}"]
    assert coremltools.target[profile.options["deployment_target"]] is same
    if version == 15:
        assert find_profile("macos")[1] == profile


def test_an_output_has_the_sizes_that_the_model_states_where_the_program_tells_none(tmp_path: Path) -> None:
    """A text encoder's mask is expanded to a shape that the model computes, and all that meets it has that shape."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[1, S, 8] x) => (float[1, S, 8] y) {
        size = Shape (x)
        one = Constant <value_floats = [1.0]> ()
        mask = Expand (one, size)
        y = Mul (x, mask)
        }"""
    )
    target, profile = find_profile("ios17")
    given = Model(ir.from_proto(model), open_dims={"S": range(4, 11)})
    (output,) = target.build(given, profile, tmp_path, BuildOptions("float32")).outputs
    assert (output.shape, output.native_shape) == ((1, "S", 8), (1, "S", 8))


@pytest.mark.parametrize(
    ("body", "output", "warnings"),
    [
        (
            "h = Exp (x) y = NonZero (h)",  # without samples, rounding may decide how many numbers are 0
            "int64[2, n] y",
            ["the whole program stays in float32: the Neural Engine, which computes in float16, executes none of it"],
        ),
        ("y = Exp (x)", "float[2, 8] y", []),
    ],
)
def test_a_program_that_the_neural_engine_cannot_execute_says_so(
    onnx_model: Callable[..., onnx.ModelProto], body: str, output: str, warnings: list[str], tmp_path: Path
) -> None:
    model = Model(ir.from_proto(onnx_model(f"g (float[2, 8] x) => ({output}) {{ {body} }}")))
    target, profile = find_profile("ios18")
    assert target.build(model, profile, tmp_path, BuildOptions("auto")).record["warnings"] == warnings
