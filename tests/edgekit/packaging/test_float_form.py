"""What a form of a model has to be better than: the same model in float."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from edgekit.data.samples import FolderSamples, open_samples
from edgekit.model import Model
from edgekit.packaging import float_form
from edgekit.packaging.float_form import LOOKS, FloatForm, NotWorthItError, name_of_given
from edgekit.registry import find_profile
from edgekit.stages.build import Build, Built
from edgekit.stages.bundle import loaded_bytes
from edgekit.stages.load import Load
from edgekit.target import Artifact, BuildOptions, Profile, Target
from edgekit.timing.latency import Interval
from edgekit.units import bytes_text, bytes_texts

OnnxFile = Callable[..., Path]
CLEARLY_FASTER, AS_FAST, SLOWER = (0.4, 0.5), (0.97, 1.03), (1.01, 1.3)
BARELY_SLOWER, NOT_CLEAR = (1.02, 1.06), (0.9, 1.4)


@pytest.fixture
def model(onnx_file: OnnxFile) -> Model:
    w = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    return Load()(onnx_file("f (float[1, 64] x) => (float[1, 256] y) { y = MatMul(x, w) }", w=w)).model


@pytest.fixture
def samples(tmp_path: Path, model: Model) -> FolderSamples:
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", x=np.ones((1, 64), np.float32))
    return open_samples(tmp_path / "data", model.inputs)


@pytest.fixture
def form(model: Model) -> FloatForm:
    return FloatForm(model, *find_profile("intel-cpu"), BuildOptions())


@pytest.fixture
def built(model: Model, tmp_path: Path) -> Artifact:
    target, profile = find_profile("intel-cpu")
    (tmp_path / "built").mkdir()
    return target.build(model, profile, tmp_path / "built", BuildOptions(precision="float16"))


@pytest.mark.parametrize(
    ("looks", "slower"),
    [
        ((CLEARLY_FASTER,), False),
        ((SLOWER, SLOWER, SLOWER), True),
        ((SLOWER, AS_FAST, SLOWER), True),
        ((SLOWER, AS_FAST, AS_FAST), False),
        ((AS_FAST, SLOWER, AS_FAST), False),
        ((AS_FAST,) * (LOOKS - 1), False),  # one more measurement could not make it slower in more than half of them
        ((BARELY_SLOWER,) * (LOOKS - 1), False),
        ((NOT_CLEAR,) * (LOOKS - 1), False),
        ((SLOWER, CLEARLY_FASTER), False),
        ((SLOWER, SLOWER, CLEARLY_FASTER), False),
        ((None,), False),
    ],
)
def test_what_is_slower_more_often_than_not_is_not_worth_it(
    form: FloatForm,
    built: Artifact,
    samples: FolderSamples,
    monkeypatch: pytest.MonkeyPatch,
    looks: Sequence[Interval | None],
    slower: bool,
) -> None:
    left = list(looks)
    monkeypatch.setattr(FloatForm, "_ratio", lambda *_: left.pop(0))

    if slower:
        with pytest.raises(NotWorthItError, match="is slower than the float model"):
            form.require_as_fast(built, samples)
    else:
        form.require_as_fast(built, samples)

    assert left == []


@pytest.mark.parametrize(
    ("looks", "slower"),
    [
        ((SLOWER,) * LOOKS, True),
        ((SLOWER, AS_FAST), False),
        ((SLOWER, SLOWER, BARELY_SLOWER), False),
        ((NOT_CLEAR,), False),
    ],
)
def test_half_precision_is_not_worth_it_where_it_is_slower_each_time(
    form: FloatForm,
    built: Artifact,
    samples: FolderSamples,
    monkeypatch: pytest.MonkeyPatch,
    looks: Sequence[Interval],
    slower: bool,
) -> None:
    left = list(looks)
    monkeypatch.setattr(FloatForm, "_ratio", lambda *_: left.pop(0))

    with pytest.raises(NotWorthItError) if slower else nullcontext():
        form.require_as_fast(built, samples, in_half=True)

    assert left == []


def test_where_the_device_is_another_nothing_is_timed(
    model: Model, built: Artifact, samples: FolderSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    monkeypatch.setattr(FloatForm, "_ratio", lambda *_: looks.append(1))
    target, profile = find_profile("intel-cpu")
    away = replace(profile, runs_here=False)

    FloatForm(model, target, away, BuildOptions()).require_as_fast(built, samples)
    assert looks == []

    FloatForm(model, target, replace(profile, runs_here=True), BuildOptions()).require_as_fast(built, samples)
    assert looks == [1]


def test_both_are_timed_in_processes_of_their_own(
    form: FloatForm, built: Artifact, samples: FolderSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Spied:
        def __init__(self, session: Any) -> None:
            self._session = session

        def time(self, feeds: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Any:
            asked.append(self._session.executed_by)
            return self._session.time(feeds, runs, warm_up)

    milliseconds = float_form._milliseconds
    monkeypatch.setattr(float_form, "_milliseconds", lambda session, *rest: milliseconds(Spied(session), *rest))
    monkeypatch.setenv("EDGEKIT_MEASURE_SECONDS", "0.3")

    low, high = form._ratio(built, built, next(iter(samples)).feeds) or (0, 0)

    assert len(asked) >= 2
    assert all(name.startswith("OpenVINO") and ", on " in name for name in asked)  # as a separate check says
    assert 0.5 < (low * high) ** 0.5 < 2


@pytest.mark.parametrize(("zeros", "worth_it"), [(0.0, True), (0.9, False)])
def test_what_saves_nothing_beside_sparse_weights_in_half_precision_is_not_worth_it(
    onnx_file: OnnxFile, tmp_path: Path, zeros: float, worth_it: bool
) -> None:
    """A byte for each weight is half of float16, but more than a bit for each and two bytes for one in ten.

    iOS 17 stores 8-bit integers that are mostly zeros as others.
    """
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((256, 512)) * (rng.random((256, 512)) >= zeros)).astype(np.float32)
    scale = np.abs(w).max(axis=0) / 127
    model, stored = (
        Load()(onnx_file(f"f (float[1, 256] x) => (float[1, 512] y) {{ {made} }}", **weights)).model
        for made, weights in (
            ("y = MatMul(x, w)", {"w": w}),
            (
                "d = DequantizeLinear <axis = 1> (q, scale) y = MatMul(x, d)",
                {"q": np.rint(w / scale).astype(np.int8), "scale": scale},
            ),
        )
    )
    target, profile = find_profile("ios17")
    (tmp_path / "built").mkdir()
    build = Build(target, profile, BuildOptions(precision="float16"), tmp_path / "built", quantized=True)
    built = build(stored)
    assert isinstance(built, Built)
    with nullcontext() if worth_it else pytest.raises(NotWorthItError, match="is no smaller than the float model"):
        FloatForm(model, target, profile, BuildOptions()).require_smaller(built)


class NotesInHalf:
    """The target that it wraps, whose file in half precision notes what stays in single, as OpenVINO's may."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
        built = self._target.build(model, profile, folder, options)
        if options.precision == "float16":
            built.main.write_text(built.main.read_text() + f"<!-- {'notes ' * 20} -->")
        return built


def test_what_is_smaller_than_half_precision_alone_is_not_worth_it(onnx_file: OnnxFile, tmp_path: Path) -> None:
    few = np.arange(1, 5, dtype=np.float32) / 7
    model = Load()(onnx_file("f (float[1, 4] x) => (float[1, 4] y) { y = Mul (x, w) }", w=few)).model
    target, profile = find_profile("intel-cpu")
    target = cast(Target, NotesInHalf(target))
    built = Build(target, profile, BuildOptions(precision="float32"), tmp_path, quantized=False)(model)
    assert isinstance(built, Built)
    with pytest.raises(NotWorthItError, match="is no smaller than the float model"):
        FloatForm(model, target, profile, BuildOptions()).require_smaller(built)


def test_half_precision_has_to_save_a_twentieth_of_the_file(onnx_file: OnnxFile, tmp_path: Path) -> None:
    """Small weights among many constants of other types: what OpenVINO's file says of them takes most of it."""
    rng = np.random.default_rng(0)
    small = Load()(
        onnx_file(
            "f (float[1, 64] x) => (float[1, 6000] y, float[1, 16] z) "
            "{ y = Gather <axis = 1> (x, i) z = MatMul(x, w) }",
            i=rng.integers(0, 64, 6000),
            w=rng.standard_normal((64, 16)).astype(np.float32),
        )
    ).model
    target, profile = find_profile("intel-cpu")
    sizes = {}
    for precision in ("float16", "float32"):
        folder = tmp_path / precision
        folder.mkdir()
        built = Build(target, profile, BuildOptions(precision=precision), folder, quantized=False)(small)
        assert isinstance(built, Built)
        sizes[precision] = loaded_bytes(built.artifact)
        if precision == "float16":
            form = FloatForm(small, target, profile, BuildOptions())
            with pytest.raises(NotWorthItError, match="is hardly smaller than the float model") as failure:
                form.require_smaller(built, in_half=True)
    assert 0.95 < sizes["float16"] / sizes["float32"] < 1
    allowed = int(sizes["float32"] * 0.95)
    found, most = bytes_texts(sizes["float16"], allowed)
    assert (failure.value.found, failure.value.expected) == (found, f"at most {most}")


def test_a_form_of_the_same_size_is_told_with_what_it_is_compared_with(onnx_file: OnnxFile, tmp_path: Path) -> None:
    """A quantized model has no float weights that half precision could store: its size is no limit that was missed."""
    weights = np.random.default_rng(0).integers(-127, 128, (64, 64)).astype(np.int8)
    text = """f (float[1, 64] x) => (int32[1, 64] y) {
        q, scale, zero = DynamicQuantizeLinear(x)
        y = MatMulInteger(q, w, zero)
    }"""
    quantized = Load()(onnx_file(text, w=weights)).model
    target, profile = find_profile("intel-cpu")
    built = Build(target, profile, BuildOptions(precision="float16"), tmp_path, quantized=False)(quantized)
    assert isinstance(built, Built)
    with pytest.raises(NotWorthItError) as failure:
        FloatForm(quantized, target, profile, BuildOptions()).require_smaller(built, in_half=True)
    size = bytes_text(sum(each.stat().st_size for each in built.artifact.files))
    assert failure.value.message == f"is no smaller than the model as it came, built in float32 ({size} each)"


def test_a_model_that_is_quantized_already_is_no_float_model(onnx_file: OnnxFile, model: Model) -> None:
    text = """f (float[1, 64] x) => (float[1, 64] y) {
        q = QuantizeLinear(x, scale, zero)
        y = DequantizeLinear(q, scale, zero)
    }"""
    quantized = Load()(onnx_file(text, scale=np.array(0.1, np.float32), zero=np.array(0, np.int8))).model
    assert (name_of_given(quantized), name_of_given(model)) == ("the model as it came", "the float model")
