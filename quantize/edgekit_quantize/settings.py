"""Reads the quantization settings from a target's data file.

A target keeps ``placement.json`` beside its module::

    {"format": 1, "default": {SETTINGS}, "profiles": {"<profile name>": {SETTINGS that differ}}}

``profiles`` may be left out. SETTINGS are the fields of :class:`Preparation` and of :class:`Settings`, and these keys:
``candidates`` lists the candidates to measure, each an object with a ``name`` and the fields of :class:`Settings` in
which it differs from the surrounding SETTINGS; ``refuses`` gives the reasons why the target does not support schemes,
by their names; ``dynamic`` lists the kinds of layers that ``int8-dynamic`` applies to; ``stored_forms`` lists the forms
in which weights are stored; ``prefers_integers`` says that a device is made for integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from edgekit.errors import InternalError

SUBJECT = "placement data"
MODES = ("float", "weights", "input", "both", "dynamic")
"""The modes of a layer. ``float``: it stays float. ``weights``: only its weights are quantized. ``input``: its
activation input is quantized too. ``both``: its output is quantized too. ``dynamic``: its activation input is quantized
by a range that is found in every run (plain matrix products only; other layers then use ``weights``)."""
FLOATS = ("float32", "float16")
"""The types in which float weights can be stored."""
BESIDE = ("candidates", "name", "refuses", "dynamic", "stored_forms", "prefers_integers")
"""Keys of a target's data that are not settings: the candidates to measure, a candidate's name, the reasons why schemes
are not supported, the kinds of layers for ``int8-dynamic``, the forms in which weights are stored
(:mod:`edgekit_quantize.sizing.forms`), and whether the device is made for integer arithmetic, so that a candidate that
computes with integers is worth more work than one that only stores them."""


@dataclass(frozen=True)
class Preparation:
    """How a model is prepared and calibrated: once for all candidates of a profile, which share the result."""

    activations: str = "uint8"
    """Integer type of activations."""
    symmetric_activations: bool = False
    """Whether the zero point must be the middle of the type's range."""
    ranges: Mapping[str, str] = field(default_factory=lambda: {"DepthwiseConv": "minmax"})
    """The rule for the range of an activation (:data:`edgekit_quantize.calibration.ranges.RULES`) by the kind of layer
    that reads it; ``percentile`` for kinds that are not listed."""
    smoothing: Mapping[str, float] = field(default_factory=dict)
    """SmoothQuant's exponent ``alpha``, 0 to 1, by kind of layer: ``MatMul``, ``Gemm`` and ``Conv``. It sets how much
    of the unevenness of activations moves into the weights (:mod:`edgekit_quantize.smoothing.smoothquant`)."""
    channel_scales: tuple[str, ...] = ()
    """Kinds of layers whose activation input gets a scale per channel (:mod:`edgekit_quantize.smoothing.per_channel`):
    ``DepthwiseConv``."""
    equalize: bool = False
    """Whether the weight ranges of successive layers are equalized first (:mod:`edgekit_quantize.prepare.equalize`)."""
    correct_rounding: bool = False
    """Whether biases are also corrected for the mean error of rounding activations
    (:mod:`edgekit_quantize.rounding.rounding_error`)."""
    padded_shifts_as_convolutions: bool = False
    """See :func:`edgekit_quantize.prepare.affine.shifts_to_convolutions`."""
    gemms_as_products: bool = False
    """Whether Gemm is written as MatMul and Add (:func:`edgekit_quantize.prepare.gemms.split_gemms`)."""


@dataclass(frozen=True)
class Settings:
    """The settings in which candidates differ. Every runtime computes correctly with the defaults."""

    preparation: Preparation = field(default_factory=Preparation)
    """The preparation that the candidate shares with the others of its profile."""
    weights: str = "int8"
    """Integer type of weights; always symmetric."""
    weights_form: str = "dequantize"
    """How weights that are only stored as integers are written: ``dequantize`` with DequantizeLinear, ``cast`` with
    Cast and Div, which runtimes compute once when they load the model. (With a Mul instead of the Div, OpenVINO would
    keep the weights as integers, and a recurrent layer would not find its constant.)"""
    block: int = 0
    """How many inputs share a scale in weights that are only stored as integers; 0 for one scale per channel."""
    whole_blocks: bool = True
    """Whether a matrix is stored in blocks only if the block size divides its number of inputs; other matrices then get
    8 bits and a scale per channel."""
    bias: str = "float"
    """``int32`` if the runtime's integer kernels need biases as integers, else ``float``."""
    layers: Mapping[str, str] = field(
        default_factory=lambda: {
            **dict.fromkeys(("Conv", "Gemm", "MatMul"), "input"),
            **dict.fromkeys(("DepthwiseConv", "ConvTranspose", "Gather", "LSTM", "GRU", "RNN"), "weights"),
        }
    )
    """Mode of every kind of layer (see :data:`MODES`); kinds that are not listed stay float. In addition to the kinds
    of :mod:`edgekit_quantize.graph.layers` there are ``Gather`` (tables) and ``LSTM``, ``GRU`` and ``RNN``, which
    support ``weights``; LSTM also supports ``dynamic`` (:mod:`edgekit_quantize.writing.dynamic_lstm`)."""
    recurrent_steps: int = 0
    """LSTM, GRU and RNN with stored weights are written out step by step if the recurrence weights of a direction have
    at least this number of elements (:mod:`edgekit_quantize.writing.recurrent_steps`). This is for runtimes that
    multiply large matrices faster than their recurrent kernels read the weights; 0 for never."""
    activation_products: bool = False
    """Whether the MatMul of two activations that computes attention scores is quantized, with symmetric ranges for its
    operands. (The MatMul behind the scores stays float: the outputs of Softmax would use few of the integers.)"""
    fused: tuple[str, ...] = ("Relu", "Clip")
    """Operators that the runtime computes inside the layer before them."""
    moves: tuple[str, ...] = ("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice")
    """Operators that pass integers through unchanged."""
    zero_points_in_biases: bool = False
    """Whether the zero point of an activation moves into the biases of the layers that read it, if all of them allow it
    (:mod:`edgekit_quantize.integers.zero_points`): runtimes that multiply integers are slower with a zero point."""
    zero_points_in_maps: bool = False
    """With :attr:`zero_points_in_biases`, whether padded convolutions allow it too if a small map behind them can hold
    what the zero point adds to each position."""
    shortcuts: bool = False
    """Whether an Add of two activations reads an activation as integers if a convolution does so anyway: a runtime then
    need not also pass the activation on as floats."""
    separate_bias: bool = False
    """Whether the Add behind a MatMul that is quantized, or stored in blocks, is written in a form that the runtime
    does not fuse with the MatMul into a Gemm, for which it only has a float kernel."""
    products_apart: bool = False
    """Whether activations between two matrix products are rounded with a third axis, for runtimes that fuse both
    products into a kernel that computes them wrongly (:mod:`edgekit_quantize.writing.products_apart`)."""
    fewest_channels: int = 0
    """Convolutions stay float if each output has fewer input channels than this, as the first convolution of an image:
    integer kernels leave most of their lanes empty there. Depthwise convolutions that read their outputs stay float
    too."""
    several_matrices: bool = False
    """Whether a MatMul computes with integers if its weights have more than two axes, as in a mixture of experts. With
    a scale for each column, ONNX Runtime does not run such products, and OpenVINO computes them wrongly."""
    float_weights: str = "float32"
    """The type in which large float weights are stored: ``float32``, or ``float16`` for runtimes that widen them once,
    when they load the model (:mod:`edgekit_quantize.writing.float16`). If it is ``float16`` and no candidate holds the
    budget, the model with all weights in half precision is measured too."""
    sums_in_int16: bool = True
    """Whether the sum of the products of two neighboring inputs has to fit into 16 bits, with inputs as large as on the
    samples (:func:`edgekit_quantize.integers.weights.layer_weights`): x86 processors without VNNI add them in 16 bits.
    Targets whose devices never do set it to False."""

    @classmethod
    def read(cls, data: Mapping[str, Any], preparation: Preparation | None = None) -> Settings:
        """The settings from a target's data; keys of :data:`BESIDE` are ignored.

        Args:
            data: Fields of :class:`Settings`, and of :class:`Preparation` if ``preparation`` is None.
            preparation: The preparation that the candidate shares with others; None reads it from ``data``.

        Raises:
            edgekit.errors.InternalError: A field or a mode is not known.
        """
        given: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in data.items() if name not in BESIDE
        }
        known = {*PREPARES, *DISTINGUISHES}
        for name in given:
            if name not in known:
                raise InternalError(f"no setting {name!r}", subject=SUBJECT, expected=", ".join(sorted(known)))
        if given.get("float_weights", "float32") not in FLOATS:
            raise InternalError(
                f"no type {given['float_weights']!r} for float weights", subject=SUBJECT, expected=", ".join(FLOATS)
            )
        for kind, mode in given.get("layers", {}).items():
            if mode not in MODES:
                raise InternalError(f"no mode {mode!r} for {kind}", subject=SUBJECT, expected=", ".join(MODES))
        shared: dict[str, Any] = {name: given.pop(name) for name in PREPARES if name in given}
        return cls(preparation=Preparation(**shared) if preparation is None else preparation, **given)

    @property
    def quantizes_activations(self) -> bool:
        """Whether any kind of layer computes with integers, rather than only storing its weights as integers."""
        return any(mode in ("input", "both") for mode in self.layers.values())

    @property
    def has_wide_activations(self) -> bool:
        """Whether activations become integers of 16 bits."""
        return self.quantizes_activations and self.preparation.activations in ("int16", "uint16")

    @property
    def is_half(self) -> bool:
        """Whether all weights are stored in half precision, and nothing is quantized."""
        return self.float_weights == "float16" and not self.layers


PREPARES = tuple(field.name for field in fields(Preparation))
DISTINGUISHES = tuple(field.name for field in fields(Settings) if field.name != "preparation")
IN_CANDIDATES = ("activations",)
"""Fields of :class:`Preparation` that a candidate may override: calibration statistics do not depend on them."""


@dataclass(frozen=True)
class Placement:
    """The preparation and the candidates of one profile in a target's data."""

    preparation: Preparation
    candidates: Mapping[str, Settings]
    """The candidates to measure, by name, in the order of the data file."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Placement:
        """The profile's preparation and candidates.

        Raises:
            edgekit.errors.InternalError: A field or a mode is not known; a candidate has a field of
                :class:`Preparation`, which would never be applied to it alone, other than :data:`IN_CANDIDATES`; two
                candidates have the same name.
        """
        preparation = Settings.read(data).preparation
        candidates: dict[str, Settings] = {}
        for entry in data.get("candidates") or [{"name": "int8"}]:
            name = entry["name"]
            for shared in PREPARES:
                if shared in entry and shared not in IN_CANDIDATES:
                    raise InternalError(
                        f"the candidate {name!r} sets {shared!r}, which holds for all candidates of a profile",
                        subject=SUBJECT,
                        expected=", ".join(DISTINGUISHES),
                        hint=f"move {shared!r} beside 'candidates': the model is prepared once for all of them",
                    )
            if name in candidates:
                raise InternalError(f"two candidates are called {name!r}", subject=SUBJECT)
            around = {key: value for key, value in data.items() if key not in PREPARES}
            own = {key: entry[key] for key in IN_CANDIDATES if key in entry}
            if own and preparation.channel_scales:
                raise InternalError(
                    f"the candidate {name!r} sets {next(iter(own))!r} although 'channel_scales' is set",
                    subject=SUBJECT,
                    expected="no 'channel_scales': scales of channels are computed for one integer type",
                )
            differs = {key: value for key, value in entry.items() if key not in own}
            candidates[name] = Settings.read({**around, **differs}, replace(preparation, **own) if own else preparation)
        return cls(preparation, candidates)
