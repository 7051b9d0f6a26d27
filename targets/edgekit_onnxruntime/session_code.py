"""Generates code that opens a session as ``session.json`` describes, in the languages of apps: C++, Kotlin and Swift.

The code contains the options as literals, so that an app needs one file and reads no JSON. The code that does not
depend on them is in the folder ``assets``, with ``@NAME@`` as a placeholder for generated parts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

CONTEXT_FILE = "ep.context_file_path"
MARKS = re.compile(r"(\{threads\}|\{cache\})")
NNAPI_FLAGS = {"USE_FP16": 0x001, "USE_NCHW": 0x002, "CPU_DISABLED": 0x004, "CPU_ONLY": 0x008}
"""The values of flags in ``nnapi_provider_factory.h``, which are those of the class ``NNAPIFlags`` in Java."""
GENERIC = {
    "XnnpackExecutionProvider": "XNNPACK",
}
"""A provider's name for ``AppendExecutionProvider`` of the C++ API, if it is not its name without the suffix."""
STRUCTURES = {
    "CUDAExecutionProvider": ("CUDA", "OrtCUDAProviderOptionsV2", "AppendExecutionProvider_CUDA_V2"),
    "TensorrtExecutionProvider": ("TensorRT", "OrtTensorRTProviderOptionsV2", "AppendExecutionProvider_TensorRT_V2"),
    "CANNExecutionProvider": ("CANN", "OrtCANNProviderOptions", "AppendExecutionProvider_CANN"),
}
"""Providers with an options structure: its name in C API functions, its type, and the C++ method that accepts it."""
KOTLIN = {
    "NnapiExecutionProvider": "addNnapi",
    "QNNExecutionProvider": "addQnn",
    "XnnpackExecutionProvider": "addXnnpack",
}
"""The Java API's methods that add providers for Android."""
SWIFT = "CoreMLExecutionProvider"
Expression = Callable[[str], str]
"""Returns the expression, in the language, of a text that may contain ``{threads}`` and ``{cache}``."""


def session_code(profile: str, record: Mapping[str, Any]) -> dict[str, str]:
    """The source files for apps that use a profile's provider.

    Args:
        profile: The name of the profile.
        record: The content of ``session.json``.

    Returns:
        The text of each file, by its name in the bundle.
    """
    provider = record["provider"]
    code = {"open_session.hpp": _cpp(profile, record)}
    if provider in KOTLIN:
        code["OpenSession.kt"] = _kotlin(profile, record)
    if provider == SWIFT:
        code["OpenSession.swift"] = _swift(profile, record)
    return code


def _scope(profile: str, record: Mapping[str, Any]) -> str:
    """The name of the code's namespace: equal for equal options, so that an app may contain several bundles."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    return f"{profile.replace('-', '_')}_{digest[:8]}"


def _cpp(profile: str, record: Mapping[str, Any]) -> str:
    provider = record["provider"]
    kept = record.get("cache", {})
    entries = kept.get("session_options", {})
    structures = [name for name in (provider, *record.get("further_providers", ())) if name in STRUCTURES]
    includes = ["<memory>", "<vector>"] if structures else []
    nnapi = provider == "NnapiExecutionProvider"
    return _filled(
        "open_session.hpp.in",
        PROFILE=profile,
        SCOPE=_scope(profile, record),
        PROVIDER=provider,
        INCLUDES="".join(f"#include {name}\n" for name in includes),
        STRUCTURES="".join(_cpp_structure(*STRUCTURES[name]) for name in structures) + (_CPP_NNAPI if nnapi else ""),
        OPTIONS=_entries(record["provider_options"], "  options[{}] = {};\n", _cpp_literal, _cpp_text),
        CACHED_OPTIONS=_block(
            "  if (!cache.empty()) {\n",
            _entries(kept.get("provider_options", {}), "    options[{}] = {};\n", _cpp_literal, _cpp_text),
            "  }\n",
        ),
        ENTRIES=_entries(
            record["session_options"], "  options.AddConfigEntry({}, ({}).c_str());\n", _cpp_literal, _cpp_text
        ),
        CACHED_ENTRIES=_block(
            "  if (!cache.empty() && !std::filesystem::exists(compiled_file(cache))) {\n",
            _entries(entries, "    options.AddConfigEntry({}, ({}).c_str());\n", _cpp_literal, _cpp_text),
            "  }\n",
        ),
        COMPILED_FILE=_CPP_COMPILED.format(_cpp_text(entries[CONTEXT_FILE])) if entries else "",
        COMPILED="  const std::filesystem::path compiled = cache.empty() ? cache : compiled_file(cache);\n"
        if entries
        else "",
        MODEL='std::filesystem::exists(compiled) ? compiled : folder / "model.onnx"'
        if entries
        else 'folder / "model.onnx"',
        APPEND="\n".join(
            f"  {_cpp_append(name, 'provider_options(threads, cache)' if name == provider else '{}', record)}"
            for name in (provider, *record.get("further_providers", ()))
        ),
    )


def _cpp_append(provider: str, options: str, record: Mapping[str, Any]) -> str:
    if provider in STRUCTURES:
        return f"append_{STRUCTURES[provider][0]}(options, {options});"
    if provider == "NnapiExecutionProvider":
        flags = " | ".join(f"0x{NNAPI_FLAGS[flag]:03x}" for flag in record.get("flags", ())) or "0"
        names = ", ".join(record.get("flags", ())) or "none"
        return f"Ort::ThrowOnError(OrtSessionOptionsAppendExecutionProvider_Nnapi(options, {flags}));  // {names}"
    if provider == "OpenVINOExecutionProvider":
        return f"options.AppendExecutionProvider_OpenVINO_V2({options});"
    name = GENERIC.get(provider, provider.removesuffix("ExecutionProvider"))
    return f"options.AppendExecutionProvider({_cpp_literal(name)}, {options});"


_CPP_COMPILED = """/// The file that is loaded in place of the model once the provider has compiled it.
inline std::filesystem::path compiled_file(const std::filesystem::path& cache) {{
  return {};
}}

"""
_CPP_NNAPI = """
// As nnapi_provider_factory.h of ONNX Runtime declares it.
extern "C" OrtStatus* ORT_API_CALL OrtSessionOptionsAppendExecutionProvider_Nnapi(OrtSessionOptions* options,
                                                                                  uint32_t flags) NO_EXCEPTION;
"""


def _cpp_structure(name: str, structure: str, append: str) -> str:
    """The code of a function that adds a provider whose options are a structure in the C API."""
    return f"""
inline void append_{name}(Ort::SessionOptions& options, const Options& values) {{
  const OrtApi& api = Ort::GetApi();
  {structure}* made = nullptr;
  Ort::ThrowOnError(api.Create{name}ProviderOptions(&made));
  const std::unique_ptr<{structure}, decltype(api.Release{name}ProviderOptions)> provider(
      made, api.Release{name}ProviderOptions);
  std::vector<const char*> names, texts;
  for (const auto& [name, text] : values) {{
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }}
  if (!names.empty()) {{
    Ort::ThrowOnError(api.Update{name}ProviderOptions(made, names.data(), texts.data(), names.size()));
  }}
  options.{append}(*made);
}}
"""


def _kotlin(profile: str, record: Mapping[str, Any]) -> str:
    kept = record.get("cache", {})
    entries = kept.get("session_options", {})
    by_flags = "flags" in record
    flags = ", ".join(f"NNAPIFlags.{flag}" for flag in record.get("flags", ()))
    append = (
        f"{KOTLIN[record['provider']]}({f'EnumSet.of({flags})' if by_flags else 'providerOptions(threads, cache)'})"
    )
    return _filled(
        "OpenSession.kt.in",
        PROFILE=profile,
        SCOPE=_scope(profile, record),
        PROVIDER=record["provider"],
        FLAG_IMPORTS="import ai.onnxruntime.providers.NNAPIFlags\n" if by_flags else "",
        SET_IMPORTS="import java.util.EnumSet\n" if by_flags else "",
        OPTIONS=_entries(record["provider_options"], "        options[{}] = {}\n", _kotlin_literal, _kotlin_text),
        CACHED_OPTIONS=_block(
            "        if (cache != null) {\n",
            _entries(kept.get("provider_options", {}), "            options[{}] = {}\n", _kotlin_literal, _kotlin_text),
            "        }\n",
        ),
        ENTRIES=_entries(
            record["session_options"], "        options.addConfigEntry({}, {})\n", _kotlin_literal, _kotlin_text
        ),
        CACHED_ENTRIES=_block(
            "        if (cache != null && compiledFile(cache) == null) {\n",
            _entries(entries, "            options.addConfigEntry({}, {})\n", _kotlin_literal, _kotlin_text),
            "        }\n",
        ),
        COMPILED_FILE=_KOTLIN_COMPILED.format(_kotlin_text(entries[CONTEXT_FILE])) if entries else "",
        MODEL='compiledFile(cache) ?: File(folder, "model.onnx")' if entries else 'File(folder, "model.onnx")',
        APPEND=append,
    )


_KOTLIN_COMPILED = """    /** What is loaded in place of the model once the provider has compiled it; null before. */
    private fun compiledFile(cache: File?): File? =
        if (cache == null) null else File({}).takeIf {{ it.isFile }}

"""


def _swift(profile: str, record: Mapping[str, Any]) -> str:
    kept = record.get("cache", {})
    return _filled(
        "OpenSession.swift.in",
        PROFILE=profile,
        PROVIDER=record["provider"],
        OPTIONS=_entries(record["provider_options"], "        options[{}] = {}\n", _swift_literal, _swift_text),
        CACHED_OPTIONS=_block(
            "        if let cache {\n",
            _entries(kept.get("provider_options", {}), "            options[{}] = {}\n", _swift_literal, _swift_text),
            "        }\n",
        ),
        ENTRIES=_entries(
            record["session_options"],
            "        try options.addConfigEntry(withKey: {}, value: {})\n",
            _swift_literal,
            _swift_text,
        ),
    )


def _block(head: str, lines: str, end: str) -> str:
    """Lines inside a block; empty if there are no lines."""
    return f"{head}{lines}{end}" if lines else ""


def _entries(options: Mapping[str, str], form: str, literal: Expression, text: Expression) -> str:
    """A line for each option."""
    return "".join(form.format(literal(name), text(value)) for name, value in options.items())


def _cpp_text(value: str) -> str:
    parts = [
        {"{threads}": "std::to_string(threads)", "{cache}": "cache.generic_string()"}.get(part, _cpp_literal(part))
        for part in MARKS.split(value)
        if part
    ]
    return " + ".join(
        ["std::string()", *parts] if len(parts) > 1 else [f"std::string({part})" for part in parts or [""]]
    )


def _kotlin_text(value: str) -> str:
    known = {"{threads}": "threads.toString()", "{cache}": "cache.path"}
    return " + ".join(known.get(part, _kotlin_literal(part)) for part in MARKS.split(value) if part) or '""'


def _swift_text(value: str) -> str:
    known = {"{threads}": "String(threads)", "{cache}": "cache.path"}
    return " + ".join(known.get(part, _swift_literal(part)) for part in MARKS.split(value) if part) or '""'


def _cpp_literal(text: str) -> str:
    """A C++ literal. Non-ASCII characters become octal escapes of UTF-8 bytes, which end after three digits."""
    return '"' + "".join(_PLAIN.get(byte) or f"\\{byte:03o}" for byte in text.encode()) + '"'


def _kotlin_literal(text: str) -> str:
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2)]
    return '"' + "".join("\\$" if code == ord("$") else _PLAIN.get(code) or f"\\u{code:04x}" for code in codes) + '"'


def _swift_literal(text: str) -> str:
    return '"' + "".join(_PLAIN.get(ord(letter)) or f"\\u{{{ord(letter):x}}}" for letter in text) + '"'


_PLAIN = {code: chr(code) for code in range(32, 127)} | {ord('"'): '\\"', ord("\\"): "\\\\"}
"""How printable ASCII characters are written in literals of all three languages, by code."""


def _filled(asset: str, **values: str) -> str:
    """A file of the folder ``assets`` with its placeholders replaced."""
    text = files("edgekit_onnxruntime").joinpath("assets", asset).read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@\n?", lambda mark: _put_in(mark, values[mark[1]]), text)


def _put_in(mark: re.Match[str], value: str) -> str:
    """The replacement of a placeholder; a placeholder that is a whole line is replaced by whole lines or by nothing."""
    ends = mark[0].endswith("\n")
    return value if not ends or value.endswith("\n") or not value else f"{value}\n"
