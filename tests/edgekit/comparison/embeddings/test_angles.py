"""Embeddings are judged by their angles: what is near passes, and what is wrong and looks near does not."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import pytest
import scipy.stats

import edgekit
from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.embeddings.angles import MOST_RANKED, Angles, VectorPairs
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.meaning import EmbeddingMeaning, embeddings_among, meaning_of
from edgekit.comparison.side_by_side import compare, meaning_on
from edgekit.data.samples import Sample
from edgekit.errors import InputError, RequirementError
from edgekit.execution.reference import Reference
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.reporting.accuracy_texts import meaning_text
from edgekit.reporting.judgement import judge
from edgekit.reporting.summary import summary_rows
from edgekit.reporting.tiles import tiles

SCHEMA = json.loads((Path(edgekit.__file__).parent / "manifest.schema.json").read_text())
WIDTH, WORDS, LENGTH, SAMPLES = 32, 40, 12, 24


def vectors(count: int = SAMPLES, shared: float = 0.0, seed: int = 0) -> np.ndarray:
    """Unit vectors (count, WIDTH) that have a part in common, ``shared`` times as long as their own."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((count, WIDTH))
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    found = own + shared * np.full(WIDTH, WIDTH**-0.5)
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def angles(wanted: np.ndarray, got: np.ndarray) -> Angles:
    pairs = VectorPairs()
    for one, other in zip(wanted, got, strict=True):
        pairs.add(one[np.newaxis], other[np.newaxis])
    return pairs.result()


def noisy(wanted: np.ndarray, cosine: float) -> np.ndarray:
    """Unit vectors, each at a given cosine to one of the wanted vectors, in random directions from it."""
    noise = np.random.default_rng(9).standard_normal(wanted.shape)
    noise -= (noise * wanted).sum(axis=1, keepdims=True) * wanted
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return (cosine * wanted + np.sqrt(1 - cosine**2) * noise).astype(np.float32)


def test_the_figures_are_those_of_their_definitions() -> None:
    wanted = vectors(shared=0.5)
    got = noisy(wanted, 0.97)
    found = angles(wanted, got)
    wide, built = wanted.astype(float), got.astype(float)
    others = ~np.eye(SAMPLES, dtype=bool)
    rows = [(each @ wide[others[row]].T, wide[row] @ wide[others[row]].T) for row, each in enumerate(built)]
    spearman = np.mean([scipy.stats.spearmanr(one, other).statistic for one, other in rows])
    assert found.rank == pytest.approx(spearman, abs=1e-3)  # scipy ranks by more decimals than single precision has
    assert found.cosine == pytest.approx(0.97, abs=1e-5)
    assert found.worst_cosine == pytest.approx(0.97, abs=1e-5)
    assert found.explained == pytest.approx(1 - np.square(built - wide).sum() / (SAMPLES * wide.var(axis=0).sum()))
    assert (found.vectors, found.lost, found.tells) == (SAMPLES, 0, True)


def test_vectors_that_are_the_same_are_as_near_as_can_be() -> None:
    found = angles(vectors(), vectors())
    assert (found.rank, found.lost, found.flaw) == (pytest.approx(1), 0, None)
    assert found.explained == 1
    assert angles(np.eye(WIDTH, dtype=np.float32), np.eye(WIDTH, dtype=np.float32)).rank is None  # all are right angles


@pytest.mark.parametrize("shared", [0.0, 1.0, 3.0])
def test_the_mean_vector_is_no_embedding_however_near_its_cosine(shared: float) -> None:
    wanted = vectors(shared=shared)
    mean = np.broadcast_to(wanted.mean(axis=0), wanted.shape)
    found = angles(wanted, mean + 1e-3 * wanted)
    assert found.explained < 0.1
    assert found.flaw is not None
    assert found.lost > SAMPLES / 4
    if shared == 3.0:
        assert found.cosine > 0.94


def test_vectors_that_are_turned_permuted_or_of_another_length_are_others() -> None:
    wanted = vectors()
    assert abs(angles(wanted, np.roll(wanted, 1, axis=1)).rank or 0) < 0.3
    assert abs(angles(wanted, -wanted).rank or 0) > 0.99  # the order is reversed
    assert angles(wanted, -wanted).agreement < 0
    twice = angles(wanted, 2 * wanted)
    assert twice.rank == pytest.approx(1)
    assert twice.flaw is not None
    assert angles(wanted, np.float32(1.1) * wanted).flaw is None


def test_single_vectors_that_are_lost_count() -> None:
    wanted = vectors(40)
    spoiled = wanted.copy()
    spoiled[:2] = noisy(wanted[:2], 0.7)
    assert (angles(wanted, spoiled).lost, angles(wanted, spoiled).flaw) == (2, None)
    spoiled[:3] = noisy(wanted[:3], 0.7)
    assert angles(wanted, spoiled).flaw == "3 of 40 vectors are lost (at most 5%)"


def test_an_output_of_another_shape_or_of_no_numbers_is_lost() -> None:
    pairs = VectorPairs()
    for vector in vectors(10):
        pairs.add(vector[np.newaxis], vector[np.newaxis, :5])
    assert pairs.result().lost == 10
    assert angles(vectors(10), vectors(10) * np.nan).explained < 0


@pytest.mark.parametrize(
    ("count", "tells", "ranked"), [(1, False, False), (2, True, False), (7, True, False), (8, True, True)]
)
def test_few_vectors_have_no_order(count: int, tells: bool, ranked: bool) -> None:
    found = angles(vectors(count), noisy(vectors(count), 0.999))
    assert (found.tells, found.rank is not None) == (tells, ranked)
    if not ranked:
        assert found.agreement == found.explained


def test_vectors_that_are_one_vector_tell_nothing() -> None:
    one = np.broadcast_to(vectors(1), (12, WIDTH))
    assert not angles(one, one).tells


def test_of_many_vectors_some_are_ranked() -> None:
    wanted = vectors(MOST_RANKED * 2)
    found = angles(wanted, noisy(wanted, 0.99))
    assert found.vectors == MOST_RANKED * 2
    assert found.rank is not None
    assert 0.9 < found.rank < 1


def test_several_vectors_a_sample_and_vectors_among_axes_of_one_count() -> None:
    pairs = VectorPairs()
    pairs.add(vectors(8), vectors(8))
    pairs.add(vectors(1, seed=3).reshape(1, WIDTH, 1, 1), vectors(1, seed=3).reshape(1, WIDTH, 1, 1))
    assert pairs.result().vectors == 9


def test_of_several_outputs_the_worst_counts_and_one_that_is_always_the_same_does_not() -> None:
    meaning = EmbeddingMeaning(("image", "text", "prompt"))
    images, texts = vectors(10), vectors(10, seed=4)
    worse = noisy(texts, 0.96)
    for image, text, other in zip(images, texts, worse, strict=True):
        fixed = {"prompt": images[:1]}
        one, two = ({"image": image[np.newaxis], "text": each[np.newaxis], **fixed} for each in (text, other))
        meaning.add(one, two)
    found = pickle.loads(pickle.dumps(meaning)).result()
    assert found.outputs == ("image", "text")
    assert found.angles is not None
    assert found.angles.cosine == pytest.approx(0.96, abs=1e-5)
    assert found.count == 20
    assert found.proves


# models


def encoder(pooling: str = "mean", end: str = "normalized", fault: str = "") -> onnx.ModelProto:
    """A small sentence encoder: words' vectors, a layer, and their mean under a mask, divided by its length."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "words": rng.standard_normal((WORDS, 16)).astype(np.float32),
        "weight": (rng.standard_normal((16, WIDTH)) / 4).astype(np.float32),
        "bias": (0.4 * rng.standard_normal(WIDTH)).astype(np.float32),
        "last": np.array([-1]),
        "axes": np.array([1]),
        "tiny": np.float32(1e-9),
        "first": np.array([0]),
        "second": np.array([1]),
        "order": rng.permutation(WIDTH),
        "little": np.float32(1e-3),
        "all": np.ones((1, LENGTH), np.int64),
    }
    pooled = {
        "mean": (
            "m = Cast<to = 1>(mask) u = Unsqueeze(m, last) p = Mul(h, u) t = ReduceSum<keepdims = 0>(p, axes)"
            " c = ReduceSum<keepdims = 0>(u, axes) k = Clip(c, tiny) v = Div(t, k)"
        ),
        "first": "f = Slice(h, first, second, axes) v = Squeeze(f, axes) m = Identity(mask)",
        "unmasked": "v = ReduceMean<keepdims = 0>(h, axes) m = Identity(mask)",
    }[pooling]
    spoiled = {
        "": "w = Identity(v)",
        "permuted": "w = Gather<axis = 1>(v, order)",
        "the same": "z = Mul(v, little) w = Add(z, bias)",
    }[fault]
    ending = {
        "normalized": "n = ReduceL2<keepdims = 1>(w, axes) d = Clip(n, tiny) y = Div(w, d)",
        "as it is": "y = Identity(w)",
        "softmax": "y = Softmax<axis = -1>(w)",
    }[end]
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (int64[1, {LENGTH}] ids, int64[1, {LENGTH}] mask)'
        f" => (float[1, {WIDTH}] y) {{ e = Gather(words, ids) a = MatMul(e, weight) b = Add(a, bias) h = Tanh(b)"
        f" {pooled} {spoiled} {ending} }}"
    )
    used = {name for node in proto.graph.node for name in node.input}
    for name in sorted(used & constants.keys()):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(constants[name]), name))
    return proto


def sentence(seed: int) -> Arrays:
    """Token ids of one of 6 topics, and how many of them are words."""
    rng = np.random.default_rng(seed)
    words, length = rng.permutation(WORDS // 4) + 6 * (seed % 6), int(rng.integers(4, LENGTH + 1))
    ids = np.where(np.arange(LENGTH) < length, rng.choice(words, LENGTH), 0)[np.newaxis]
    return {"ids": ids.astype(np.int64), "mask": (np.arange(LENGTH) < length)[np.newaxis].astype(np.int64)}


class Sentences:
    """Samples in memory."""

    has_labels = False

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Any:
        return (Sample(str(seed), sentence(seed)) for seed in range(SAMPLES))


def model_of(proto: onnx.ModelProto) -> Model:
    return Model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))


def judged(built: onnx.ModelProto, kind: Kind = Kind.QUANTIZED, original: onnx.ModelProto | None = None) -> Accuracy:
    """The accuracy of another model as if it were what was built of the encoder; both are executed."""
    model = model_of(original or encoder())
    reference, samples = Reference(model), Sentences()
    meaning = meaning_on(samples, reference, model)
    outputs, task = compare(samples, reference, Reference(model_of(built)), ("y",), meaning=meaning)
    floors = Floors.of(kind, labelled=False, max_drop=None)
    told = None if meaning is None else meaning.result()
    return Accuracy("it", "the original", False, SAMPLES, floors, outputs, task, meaning=told)


def test_an_encoder_is_recognised_and_passes_by_its_angles() -> None:
    accuracy = judged(encoder())
    assert accuracy.meaning is not None
    assert (accuracy.meaning.kind, accuracy.meaning.outputs) == ("embeddings", ("y",))
    assert accuracy.shortfalls() == []
    jsonschema.validate(
        accuracy.meaning.as_record(), {**SCHEMA["$defs"]["accuracy"]["properties"]["meaning"], "$defs": SCHEMA["$defs"]}
    )


@pytest.mark.parametrize(
    "built",
    [
        encoder(fault="permuted"),
        encoder(pooling="first"),
        encoder(pooling="unmasked"),
        encoder(fault="the same"),
        encoder(end="as it is"),
    ],
    ids=["a permuted dimension", "the first token's vector", "no mask", "nearly the same vector", "not normalized"],
)
def test_a_wrong_model_is_refused(built: onnx.ModelProto) -> None:
    (flaw,) = judged(built).shortfalls()
    assert flaw.startswith("output 'y': ")
    assert "rank correlation of cosines" in flaw or "of the variance between vectors" in flaw


def test_a_float32_build_is_judged_by_its_numbers() -> None:
    slightly = encoder()
    (weight,) = (each for each in slightly.graph.initializer if each.name == "weight")
    rounded = onnx.numpy_helper.to_array(weight) + np.float32(1e-2)
    weight.CopyFrom(onnx.numpy_helper.from_array(rounded, "weight"))
    assert judged(slightly).shortfalls() == []
    (flaw,) = judged(slightly, Kind.FLOAT32).shortfalls()
    assert "dB on its worst sample (at least 50 dB)" in flaw


def test_a_classifier_is_no_encoder() -> None:
    scores = encoder(end="softmax")
    assert judged(scores, original=scores).meaning is None
    model = model_of(encoder())
    answers = [Reference(model).run(sentence(0))]
    assert meaning_of(answers, model.fed_inputs, graph=model.graph) is not None
    assert meaning_of(answers, model.fed_inputs, classes=WIDTH, graph=model.graph) is None


def test_what_the_user_says_of_embeddings_wins() -> None:
    model = model_of(encoder())
    answers = [Reference(model).run(sentence(0))]
    none = DeclaredOutputs.parse({"embeddings": False}, "it")
    named = DeclaredOutputs.parse({"embeddings": "y"}, "it")
    assert none.as_record() == {"embeddings": False}
    assert named.as_record() == {"embeddings": ["y"]}
    assert meaning_of(answers, model.fed_inputs, declared=none, graph=model.graph) is None
    tokens = [{"y": np.zeros((1, 3, WIDTH), np.float32)}]
    for find in (embeddings_among(tokens, WIDTH, named, None), meaning_of(tokens, (), WIDTH, named)):
        assert isinstance(find, EmbeddingMeaning)
        assert find.outputs == ("y",)


def test_an_output_that_is_no_embedding_is_an_error() -> None:
    declared = DeclaredOutputs.parse({"embeddings": "y"}, "it")
    inputs = (ValueSpec("x", "float32", (1, 3)),)
    with pytest.raises(InputError) as failure:
        meaning_of([{"y": np.zeros((1, 15), np.float32)}], inputs, declared=declared)
    assert str(failure.value) == (
        "[outputs] embeddings: the output is not an embedding\n"
        "expected: floats, 16 or more along the last axis\n"
        "found: y: float32, 1×15\n"
        "hint: embeddings = false judges outputs as numbers"
    )
    with pytest.raises(InputError) as failure:
        declared.require(["vector"])
    assert str(failure.value).startswith("[outputs] embeddings: the model has no such output\nexpected: ")


def test_boxes_and_embeddings_of_one_model_are_an_error() -> None:
    with pytest.raises(InputError) as failure:
        DeclaredOutputs.parse({"boxes": "b", "embeddings": "y"}, "edgekit.toml [outputs]")
    assert str(failure.value) == (
        "edgekit.toml [outputs]: says that outputs are boxes, and that some are embeddings\n"
        "expected: boxes or embeddings: a model is judged by one of them\n"
        "found: embeddings, boxes\n"
        "hint: name what the model is used for; other outputs are judged as numbers"
    )
    assert DeclaredOutputs.parse({"boxes": False, "embeddings": "y"}, "it").embeddings == ("y",)


# commands


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, seeds in (("data", range(SAMPLES)), ("few", range(5))):
        (tmp_path / name).mkdir()
        for seed in seeds:
            feeds: Mapping[str, Any] = sentence(seed)
            np.savez(tmp_path / name / f"{seed:02}.npz", **feeds)
    onnx.save(encoder(), tmp_path / "encoder.onnx")
    return tmp_path


def test_a_quantized_encoder_is_packaged_verified_and_reported_by_its_angles(folder: Path) -> None:
    model, data = folder / "encoder.onnx", folder / "data"
    bundle = edgekit.package(model, "onnxruntime", output=folder / "bundle", data=data, quantize="int8")
    meaning = bundle.manifest["accuracy"]["meaning"]
    assert (meaning["kind"], meaning["outputs"], meaning["count"]) == ("embeddings", ["y"], SAMPLES)
    assert meaning["agreement"] == meaning["angles"]["rank"] > 0.95
    search = next(stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "quantize")
    assert {point["metric"] for point in search["curve"]} == {"embeddings"}
    text = dict(summary_rows(bundle.manifest))["embeddings"]
    assert text == meaning_text(meaning)
    assert text.startswith(
        f"cosine {meaning['angles']['cosine']:.4f}, {meaning['angles']['worst_cosine']:.4f} on its worst"
    )
    assert any(
        "rank correlation of 0.95 and 90% of the embeddings' variance" in each.text
        for each in judge(bundle.manifest)[1]
    )
    assert any(tile.value == f"{meaning['angles']['cosine']:.4f}" for tile in tiles(bundle.manifest))
    verified = edgekit.verify(bundle, data=data, model=model).accuracy
    assert verified is not None
    assert verified.meaning is not None
    assert verified.meaning.agreement == pytest.approx(meaning["agreement"], abs=1e-3)


def test_few_samples_are_judged_by_what_is_explained(folder: Path) -> None:
    bundle = edgekit.package(
        folder / "encoder.onnx", "onnxruntime", output=folder / "bundle", data=folder / "few", quantize="int8"
    )
    meaning = bundle.manifest["accuracy"]["meaning"]
    assert meaning["angles"]["rank"] is None
    assert meaning["agreement"] == meaning["angles"]["explained"] >= 0.9


def test_a_budget_bounds_what_the_rank_correlation_lacks(folder: Path) -> None:
    with pytest.raises(RequirementError, match="no candidate holds the accuracy budget") as failure:
        edgekit.quantize(
            folder / "encoder.onnx", folder / "out.onnx", data=folder / "data", scheme="int8", max_drop="0.0005%"
        )
    assert re.search(r"embeddings +99\.\d\d% +100\.00% +0\.0", str(failure.value))


def test_zeros_in_both_models_are_the_same_vector() -> None:
    """As an encoder of faces gives for an empty picture; zeros in one model alone have no direction in common."""
    pairs = VectorPairs()
    for vector in np.vstack([np.eye(16)[:3], np.zeros((1, 16))]):
        pairs.add(vector[np.newaxis], vector[np.newaxis])
    assert (pairs.result().cosine, pairs.result().worst_cosine) == (1.0, 1.0)
    pairs.add(np.ones((1, 16)), np.zeros((1, 16)))
    assert (pairs.result().cosine, pairs.result().worst_cosine) == (0.8, 0.0)
