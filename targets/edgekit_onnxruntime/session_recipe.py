"""How a session with a device's provider is opened: ``session`` of a device file, and ``session.json`` of a bundle.

A device file's ``session`` is

    {
      "source", "date": the documentation that names the options, and when it was read,
      "provider_options": {name: text, or an object, which becomes a text of JSON},
      "session_options": {configuration entry of the session: text},
      "flags": […] for a provider whose options are flags: their names,
      "further_providers": […] providers for the nodes that this one leaves, before the CPU's,
      "precisions": {a value of --precision: {options as in the three keys above, which are added for it}},
      "cache": {options as in the first two keys above, with which the provider keeps its compilation in a folder},
      "shape_profile": {"least", "default", "greatest": the provider option for these sizes of inputs with open
        dimensions}
    }

In the texts, ``{threads}`` is a placeholder for the number of threads, and ``{cache}`` for the folder; the code that
opens the session replaces them. ``session.json`` has the same keys without ``source``, ``date``, ``precisions`` and
``shape_profile``, and the key ``provider``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgekit.features.dimensions import OpenDims, Sizes, default_size
from edgekit.target import Feature
from edgekit_onnxruntime.keys import refuse_others

SESSION_FILE = "session.json"
UNWRITABLE = (":", ",")
"""Characters that an input's name must not contain in a list of names and shapes, ``name:1x3,name:2``."""
_KEYS = frozenset({"source", "date", "precisions", "cache", "further_providers", "shape_profile"})
_OPTION_KEYS = frozenset({"provider_options", "session_options", "flags"})
_SIZES = frozenset({"least", "default", "greatest"})


@dataclass(frozen=True)
class Options:
    """Options of a session and of its provider."""

    provider_options: Mapping[str, Any] = field(default_factory=dict)
    session_options: Mapping[str, str] = field(default_factory=dict)
    flags: Sequence[str] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Options:
        """The options from an object of a device file.

        Raises:
            ValueError: The object has an unknown key.
        """
        refuse_others("session", data, _OPTION_KEYS)
        return cls(data.get("provider_options", {}), data.get("session_options", {}), tuple(data.get("flags", ())))

    def with_added(self, added: Options) -> Options:
        """The options with further ones, which replace those of the same name; objects are merged."""
        return Options(
            _merged(self.provider_options, added.provider_options),
            {**self.session_options, **added.session_options},
            (*self.flags, *(flag for flag in added.flags if flag not in self.flags)),
        )

    def as_record(self) -> dict[str, Any]:
        """The options as plain data, with objects as texts, sorted by name."""
        options = {name: _text(value) for name, value in sorted(self.provider_options.items())}
        record = {"provider_options": options, "session_options": dict(sorted(self.session_options.items()))}
        return {**record, **({"flags": list(self.flags)} if self.flags else {})}


@dataclass(frozen=True)
class SessionRecipe:
    """How a session with a device's provider is opened."""

    source: str
    date: str
    options: Options
    further_providers: tuple[str, ...] = ()
    precisions: Mapping[str, Options] = field(default_factory=dict)
    cache: Options | None = None
    shape_profile: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> SessionRecipe:
        """The recipe from ``session`` of a device file.

        Raises:
            KeyError: The source of the options, or its date, is missing.
            ValueError: There is an unknown key.
        """
        refuse_others("session", data, _KEYS | _OPTION_KEYS)
        profile = data.get("shape_profile", {})
        if profile:
            refuse_others("session", profile, _SIZES)
        return cls(
            data["source"],
            data["date"],
            Options.of({key: value for key, value in data.items() if key in _OPTION_KEYS}),
            tuple(data.get("further_providers", ())),
            {name: Options.of(options) for name, options in data.get("precisions", {}).items()},
            Options.of(data["cache"]) if "cache" in data else None,
            profile,
        )

    def record(self, provider: str, precision: str, inputs: Sequence[Feature], dimensions: OpenDims) -> dict[str, Any]:
        """The content of ``session.json`` as plain data.

        Args:
            provider: ONNX Runtime's execution provider.
            precision: The precision that was requested of the build: ``auto``, ``float32`` or ``float16``.
            inputs: The model's inputs.
            dimensions: The sizes of their open dimensions.
        """
        options = self.options.with_added(self.precisions.get(precision, Options()))
        options = replace(options, provider_options={**options.provider_options, **self._shapes(inputs, dimensions)})
        record: dict[str, Any] = {"provider": provider, **options.as_record()}
        if self.further_providers:
            record["further_providers"] = list(self.further_providers)
        if self.cache is not None:
            # Complete texts: readers cannot merge an object into a text.
            names = self.cache.provider_options
            merged = options.with_added(self.cache).provider_options
            record["cache"] = Options({name: merged[name] for name in names}, self.cache.session_options).as_record()
        return record

    def precision_of(self, provider: str, text: str) -> str:
        """The precision that a ``session.json`` was written for; ``auto`` if its options are those of no precision.

        Args:
            provider: ONNX Runtime's execution provider.
            text: The text of the file. It is not trusted: it is only compared, and no part of it is returned.
        """
        try:
            written = json.loads(text)["provider_options"].items()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return "auto"
        for precision in self.precisions:
            if self.record(provider, precision, (), {})["provider_options"].items() <= written:
                return precision
        return "auto"

    def _shapes(self, inputs: Sequence[Feature], dimensions: OpenDims) -> dict[str, str]:
        """The provider options with the sizes of inputs with open dimensions; empty if these cannot be written."""
        sized = [feature for feature in inputs if any(isinstance(size, str) for size in feature.native_shape)]
        named = {size for feature in sized for size in feature.native_shape if isinstance(size, str)}
        if not sized or unwritable_inputs(inputs) or not all(dimensions.get(name) for name in named):
            return {}
        return {
            option: ",".join(f"{feature.native_name}:{_shape(feature, dimensions, which)}" for feature in sized)
            for which, option in self.shape_profile.items()
        }


def unwritable_inputs(inputs: Sequence[Feature]) -> list[str]:
    """The inputs with open dimensions whose names cannot be written in a list of names and shapes."""
    return [
        feature.native_name
        for feature in inputs
        if any(isinstance(size, str) for size in feature.native_shape)
        and any(mark in feature.native_name for mark in UNWRITABLE)
    ]


def session_text(record: Mapping[str, Any]) -> str:
    """The text of ``session.json``."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _shape(feature: Feature, dimensions: OpenDims, which: str) -> str:
    return "x".join(map(str, _sizes(feature, dimensions, which)))


def _sizes(feature: Feature, dimensions: OpenDims, which: str) -> Iterator[int]:
    for size in feature.native_shape:
        sizes: Sizes = dimensions[size] if isinstance(size, str) else (size or 1,)
        yield {"least": min(sizes), "default": default_size(sizes), "greatest": max(sizes)}[which]


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    both = {**first, **second}
    for name in first.keys() & second.keys():
        if isinstance(first[name], Mapping) and isinstance(second[name], Mapping):
            both[name] = _merged(first[name], second[name])
    return both


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))
