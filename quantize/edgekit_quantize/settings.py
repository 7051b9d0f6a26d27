"""What a target's data file says about quantization.

A target keeps ``placement.json`` beside its module::

    {"format": 1, "default": {SETTINGS}, "profiles": {"<profile name>": {SETTINGS that differ}}}

``profiles`` may be left out. SETTINGS are the fields of :class:`Preparation` and of :class:`Settings`. Beside them
``candidates`` lists what is worth measuring, each an object with a ``name`` and the fields of :class:`Settings` in
which it differs from those around it; ``refuses`` gives the reasons why schemes cannot be taken, by their names;
``dynamic`` lists the kinds of layers that ``int8-dynamic`` is for; ``stored_forms`` lists the forms in which weights
are stored; ``prefers_integers`` says that a device is made for integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from edgekit.errors import InternalError

SUBJECT = "placement data"
MODES = ("float", "weights", "input", "both", "dynamic")
"""A layer stays float; only its weights are quantized; its activation input is as well; its output is as well; its
activation input is quantized by its own range every time (plain matrix products only; for others ``weights``)."""
FLOATS = ("float32", "float16")
"""What weights are stored as that stay float."""
BESIDE = ("candidates", "name", "refuses", "dynamic", "stored_forms", "prefers_integers")
"""What stands beside settings in a target's data: what is worth measuring, a candidate's name, schemes that the target
cannot take with the reasons, the kinds of layers that it computes with ranges of the moment, the forms in which it
stores weights (:mod:`edgekit_quantize.sizing.forms`), and whether it is made for integers, so that a candidate that
computes with them is worth more work than one that only stores them."""


@dataclass(frozen=True)
class Preparation:
    """How a model is prepared and calibrated: once for all candidates of a profile, which share what comes of it."""

    activations: str = "uint8"
    """Integer type of activations."""
    symmetric_activations: bool = False
    """Whether the zero point must be the middle of the type."""
    ranges: Mapping[str, str] = field(default_factory=lambda: {"DepthwiseConv": "minmax"})
    """The rule for the range of an activation (:data:`edgekit_quantize.calibration.ranges.RULES`) by the kind of layer
    that reads it; ``percentile`` for kinds that are not named."""
    smoothing: Mapping[str, float] = field(default_factory=dict)
    """How much of the difficulty of activations moves into the weights behind them, 0 to 1, by kind of layer
    (:mod:`edgekit_quantize.smoothing.smoothquant`): ``MatMul``, ``Gemm`` and ``Conv``."""
    channel_scales: tuple[str, ...] = ()
    """Kinds of layers whose activation input gets a scale a channel (:mod:`edgekit_quantize.smoothing.per_channel`):
    ``DepthwiseConv``."""
    equalize: bool = False
    """Whether the weights of layers that follow each other are evened out first
    (:mod:`edgekit_quantize.prepare.equalize`)."""
    correct_rounding: bool = False
    """Whether biases also take off what the rounding of activations adds on average
    (:mod:`edgekit_quantize.rounding.rounding_error`)."""
    padded_shifts_as_convolutions: bool = False
    """See :func:`edgekit_quantize.prepare.affine.shifts_to_convolutions`."""
    gemms_as_products: bool = False
    """Whether Gemm is written as MatMul and Add (:func:`edgekit_quantize.prepare.gemms.split_gemms`)."""


@dataclass(frozen=True)
class Settings:
    """What distinguishes candidates. The defaults are what every runtime computes right."""

    preparation: Preparation = field(default_factory=Preparation)
    """What the candidate shares with the others of its profile."""
    weights: str = "int8"
    """Integer type of weights; always symmetric."""
    weights_form: str = "dequantize"
    """How weights are written that only are stored as integers: with ``dequantize`` behind DequantizeLinear, with
    ``cast`` behind Cast and Div, which runtimes compute once when they load the model. (A Mul instead of the Div is
    what OpenVINO takes for weights to keep as integers, where a recurrent layer then misses its constant.)"""
    block: int = 0
    """How many inputs share a scale in weights that only are stored as integers; 0 for one scale a channel."""
    whole_blocks: bool = True
    """Whether a matrix is stored in blocks only if they come out even; others then get 8 bits and a scale a channel."""
    bias: str = "float"
    """``int32`` where the runtime's integer kernels want biases as integers, else ``float``."""
    layers: Mapping[str, str] = field(
        default_factory=lambda: {
            **dict.fromkeys(("Conv", "Gemm", "MatMul"), "input"),
            **dict.fromkeys(("DepthwiseConv", "ConvTranspose", "Gather", "LSTM", "GRU", "RNN"), "weights"),
        }
    )
    """Mode of every kind of layer (see :data:`MODES`); kinds that are not named stay float. Beside the kinds of
    :mod:`edgekit_quantize.graph.layers` there are ``Gather`` (tables) and ``LSTM``, ``GRU`` and ``RNN``, for which
    ``weights`` is known, and of LSTM ``dynamic`` (:mod:`edgekit_quantize.writing.dynamic_lstm`)."""
    recurrent_steps: int = 0
    """From how many numbers in the recurrence of a direction on LSTM, GRU and RNN are written out step by step where
    their weights are stored (:mod:`edgekit_quantize.writing.recurrent_steps`), for runtimes that multiply large
    matrices faster than their own kernels of these read the weights; 0 for none."""
    activation_products: bool = False
    """Whether the MatMul of two activations that gives an attention's scores is quantized, its operands around zero.
    (The one behind the scores stays float: what Softmax gives has few integers worth the name.)"""
    fused: tuple[str, ...] = ("Relu", "Clip")
    """Operators that the runtime computes inside the layer before them."""
    moves: tuple[str, ...] = ("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice")
    """Operators that hand integers through unchanged."""
    zero_points_in_biases: bool = False
    """Whether zero points move into the biases of the layers that read an activation, where all of them can
    (:mod:`edgekit_quantize.integers.zero_points`): runtimes that multiply integers are slower with a zero point."""
    shortcuts: bool = False
    """Whether an Add of two activations reads as integers what a convolution reads as integers anyway: a runtime then
    need not hand the same numbers on in float as well."""
    separate_bias: bool = False
    """Whether the Add behind a MatMul that is quantized, or stored in blocks, is written in a form that the runtime
    does not merge with the MatMul into a Gemm, for which it has a kernel of floats alone."""
    fewest_channels: int = 0
    """Convolutions stay float where each output has fewer input channels than this, as that of an image: integer
    kernels leave most of their lanes empty there. Depthwise ones that read what these give stay float too."""
    float_weights: str = "float32"
    """How large weights are stored that stay float: ``float32`` or ``float16``, which is for runtimes that widen them
    once, when they load the model (:mod:`edgekit_quantize.writing.float16`). Where it is ``float16`` and no candidate
    holds the budget, the model with all of them in half precision is measured too."""
    sums_in_int16: bool = True
    """Whether the products of two neighbouring inputs have to fit into 16 bits together, as large as samples told that
    inputs become (:func:`edgekit_quantize.integers.weights.layer_weights`): x86 processors without VNNI add them so.
    A target whose devices never do says that it need not be."""

    @classmethod
    def read(cls, data: Mapping[str, Any], preparation: Preparation | None = None) -> Settings:
        """The settings that a target's data give; keys of :data:`BESIDE` are ignored.

        Args:
            data: Fields of :class:`Settings`, and of :class:`Preparation` where that is not given.
            preparation: What the candidate shares with others; None reads it from ``data``.

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
        """Whether any kind of layer computes with integers, rather than storing its weights as such."""
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
"""Fields of :class:`Preparation` that a candidate may have its own of: what is counted does not depend on them."""


@dataclass(frozen=True)
class Placement:
    """What a target's data say about one profile."""

    preparation: Preparation
    candidates: Mapping[str, Settings]
    """What is worth measuring, by name, in the order of the data file."""

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
                    f"the candidate {name!r} sets {next(iter(own))!r} where channels have scales of their own",
                    subject=SUBJECT,
                    expected="no 'channel_scales': their scales are counted for one type",
                )
            differs = {key: value for key, value in entry.items() if key not in own}
            candidates[name] = Settings.read({**around, **differs}, replace(preparation, **own) if own else preparation)
        return cls(preparation, candidates)
