from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit.bundle import read_bundle
from edgekit.devices.own_check import with_own_check
from edgekit.target import Feature
from edgekit_onnxruntime.devices import devices
from edgekit_onnxruntime.session_code import session_code

BundleFor = Callable[..., Path]
GRAPH = "(float[n, 8] x) => (float[n, 8] y) { a = Relu(x) y = Softmax(a) }"
WITH_SESSIONS = sorted(name for name, device in devices().items() if device.session is not None)
ODD_NAME = 'größe "$x" \\ 🙂\n'


def code(profile: str, precision: str = "auto", name: str = "x") -> dict[str, str]:
    device = devices()[profile]
    assert device.session is not None
    inputs = (Feature(name, "float32", ("n", 8), name, "float32", ("n", 8)),)
    return session_code(profile, device.session.record(device.provider, precision, inputs, {"n": range(1, 5)}))


def test_a_bundle_for_a_provider_has_the_options_as_data_and_as_code(bundle_for: BundleFor) -> None:
    bundle = bundle_for(GRAPH, "tensorrt", "n=1..4", precision="float16")
    assert json.loads((bundle / "session.json").read_text(encoding="utf-8")) == {
        "provider": "TensorrtExecutionProvider",
        "provider_options": {
            "device_id": "0",
            "trt_fp16_enable": "True",
            "trt_profile_max_shapes": "x:4x8",
            "trt_profile_min_shapes": "x:1x8",
            "trt_profile_opt_shapes": "x:1x8",
        },
        "session_options": {},
        "further_providers": ["CUDAExecutionProvider"],
        "cache": {
            "provider_options": {
                "trt_engine_cache_enable": "True",
                "trt_engine_cache_path": "{cache}",
                "trt_timing_cache_enable": "True",
                "trt_timing_cache_path": "{cache}",
            },
            "session_options": {},
        },
    }
    assert 'options["trt_profile_max_shapes"] = std::string("x:4x8");' in (bundle / "open_session.hpp").read_text()
    manifest = read_bundle(bundle).manifest
    assert manifest["model"]["precision"] == "float16"
    assert {"session.json", "open_session.py", "open_session.hpp"} <= set(manifest["check"]["files"])
    assert {"session.json", "open_session.py", "open_session.hpp"} <= {file["path"] for file in manifest["files"]}


def test_packaging_twice_gives_the_same_bytes(bundle_for: BundleFor) -> None:
    first, second = (bundle_for(GRAPH, "openvino-ep", "n=1..4") for _ in range(2))
    for name in ("session.json", "open_session.py", "open_session.hpp", "check.py"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_host_writes_the_same_options_anew_whatever_the_bundle_says(bundle_for: BundleFor) -> None:
    """Options name libraries that are loaded: those of a bundle that somebody sent are not used."""
    bundle = bundle_for(GRAPH, "tensorrt", "n=1..4", precision="float16")
    written = (bundle / "session.json").read_text(encoding="utf-8")
    (bundle / "session.json").write_text('{"provider_options": {"backend_path": "/tmp/evil.bin"}}', encoding="utf-8")
    with with_own_check(read_bundle(bundle)) as ours:
        assert (ours.path / "session.json").read_text(encoding="utf-8") == written


@pytest.mark.parametrize(
    ("profile", "files"),
    [
        ("onnxruntime", {"open_session.py"}),
        ("android-cpu", {"open_session.py"}),
        ("web", set()),
        ("cuda", {"open_session.py", "session.json", "open_session.hpp"}),
        ("android-xnnpack", {"open_session.py", "session.json", "open_session.hpp", "OpenSession.kt"}),
        ("coreml-ep", {"open_session.py", "session.json", "open_session.hpp", "OpenSession.swift"}),
    ],
)
def test_apps_get_the_languages_that_are_written_for_the_device(
    profile: str, files: set[str], bundle_for: BundleFor
) -> None:
    bundle = bundle_for("(float[1, 8] x) => (float[1, 8] y) { y = Relu(x) }", profile)
    kinds = {"open_session.py", "session.json", "open_session.hpp", "OpenSession.kt", "OpenSession.swift"}
    assert {file.name for file in bundle.iterdir()} & kinds == files


def test_kotlin_calls_the_java_api_with_the_options() -> None:
    xnnpack = code("android-xnnpack")["OpenSession.kt"]
    assert '        options["intra_op_num_threads"] = threads.toString()\n' in xnnpack
    assert '        options.addConfigEntry("session.intra_op.allow_spinning", "0")\n' in xnnpack
    assert "        options.addXnnpack(providerOptions(threads, cache))\n" in xnnpack
    nnapi = code("android-nnapi", "float16")["OpenSession.kt"]
    assert "options.addNnapi(EnumSet.of(NNAPIFlags.CPU_DISABLED, NNAPIFlags.USE_FP16))" in nnapi
    qnn = code("android-qnn")["OpenSession.kt"]
    assert 'options.addConfigEntry("ep.context_file_path", cache.path + "/model_ctx.onnx")' in qnn


def test_swift_calls_the_objective_c_api_with_the_options() -> None:
    swift = code("coreml-ep")["OpenSession.swift"]
    assert '        options["ModelFormat"] = "MLProgram"\n' in swift
    assert '            options["ModelCacheDirectory"] = cache.path\n' in swift
    assert "appendCoreMLExecutionProvider(withOptionsV2: providerOptions(cache: cache))" in swift


@pytest.mark.parametrize("profile", WITH_SESSIONS)
def test_no_mark_is_left_in_the_code(profile: str) -> None:
    for text in code(profile).values():
        assert "@" not in text.replace("@param", "").replace("@throws", "")
        assert "{cache}" not in text
        assert "{threads}" not in text


def compiled(folder: Path, headers: Path, program: str, *options: object) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler is installed")
    (folder / "program.cpp").write_text(program, encoding="utf-8")
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{headers}", f"-I{folder}", "program.cpp"]
    done = subprocess.run([*command, *map(str, options)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "a.out"


def linked(build: Path, folder: Path) -> list[str]:
    """What links a program in a folder with a wheel's library, which looks for providers beside the program."""
    for library in (build / "onnxruntime" / "capi").glob("lib*.so*"):
        name = "libonnxruntime.so.1" if library.name.startswith("libonnxruntime.so.") else library.name
        (folder / name).symlink_to(library)
    return [str(folder / "libonnxruntime.so.1"), f"-Wl,-rpath,{folder}", f"-Wl,-rpath-link,{folder}"]


OPENS = """
#include "open_session.hpp"
Ort::Session session(const Ort::Env& env) { return edgekit_session::open_session(env, "bundle", 2, "cache", false); }
"""


@pytest.mark.cxx
@pytest.mark.slow
@pytest.mark.parametrize("profile", WITH_SESSIONS)
def test_the_header_compiles(profile: str, onnxruntime_headers: Path, tmp_path: Path) -> None:
    """Against the headers of ONNX Runtime 1.21, which Debian 13 has."""
    (tmp_path / "open_session.hpp").write_text(code(profile, "float16")["open_session.hpp"], encoding="utf-8")
    compiled(tmp_path, onnxruntime_headers, OPENS, "-fsyntax-only")


PRINTS_OPTIONS = """
#include "open_session.hpp"
#include <iostream>
int main() {
  for (const auto& [name, text] : edgekit_session::provider_options(3, "/some/folder")) {
    std::cout << name << '=' << text << '\\0';
  }
}
"""


@pytest.mark.cxx
@pytest.mark.slow
def test_literals_are_the_texts_that_they_stand_for(
    openvino_build: Path, onnxruntime_headers: Path, tmp_path: Path
) -> None:
    record = {
        "provider": "XnnpackExecutionProvider",
        "provider_options": {ODD_NAME: f"{ODD_NAME}{{threads}}7", "plain": "{cache}/{threads}"},
        "session_options": {},
    }
    header = session_code("android-xnnpack", record)["open_session.hpp"]
    (tmp_path / "open_session.hpp").write_text(header, encoding="utf-8")
    program = compiled(tmp_path, onnxruntime_headers, PRINTS_OPTIONS, *linked(openvino_build, tmp_path))
    said = subprocess.run([program], capture_output=True, check=True).stdout.decode()
    assert dict(part.split("=") for part in said.split("\0") if part) == {
        ODD_NAME: f"{ODD_NAME}37",
        "plain": "/some/folder/3",
    }


CXX_API = """
#pragma once
#include <cstdint>
namespace Ort {
struct Env {};
struct SessionOptions {
  void SetIntraOpNumThreads(int) {}
  void AddConfigEntry(const char*, const char*) {}
  template <typename... Given> void AppendExecutionProvider(Given&&...) {}
};
struct Session { template <typename... Given> explicit Session(Given&&...) {} };
}
"""
"""What a header takes of ONNX Runtime's API."""
OF_SEVERAL = """
#include <iostream>
#include <string>
std::string first();
std::string second();
int main() { std::cout << first() << ' ' << second(); }
"""


@pytest.mark.cxx
def test_a_program_holds_the_options_of_several_bundles(tmp_path: Path) -> None:
    """Inline functions of one name are one to the linker: the second bundle got the options of the first."""
    (tmp_path / "onnxruntime_cxx_api.h").write_text(CXX_API)
    sources = []
    for name in ("first", "second"):
        record = {"provider": "XnnpackExecutionProvider", "provider_options": {"of": name}, "session_options": {}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "open_session.hpp").write_text(session_code("android-xnnpack", record)["open_session.hpp"])
        body = 'return edgekit_session::provider_options().at("of");'
        sources.append(f"{name}.cpp")
        (tmp_path / sources[-1]).write_text(
            f'#include "{name}/open_session.hpp"\nstd::string {name}() {{ {body} }}\n'
            "Ort::Session opened(const Ort::Env& env);\n"
        )
    program = compiled(tmp_path, tmp_path, OF_SEVERAL, *sources)
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"first second"


def test_kotlin_of_several_bundles_stands_in_packages_of_their_own() -> None:
    """Two objects of one name in one package are refused by the compiler."""
    packages = {
        next(line for line in code(profile, precision)["OpenSession.kt"].splitlines() if line.startswith("package "))
        for profile in ("android-nnapi", "android-qnn")
        for precision in ("auto", "float16")
    }
    texts = {
        code(profile, precision)["OpenSession.kt"]
        for profile in ("android-nnapi", "android-qnn")
        for precision in ("auto", "float16")
    }
    assert len(packages) == len(texts) > 2


RUNS = """
#include "open_session.hpp"
#include <array>
#include <iostream>
int main(int, char** arguments) {
  const Ort::Env env;
  try {
    Ort::Session session = edgekit_session::open_session(env, arguments[1], 1, {}, false);
    std::array<float, 8> values{-1, 0, 1, 2, 3, 4, 5, 6};
    const std::array<int64_t, 2> shape{1, 8};
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    const Ort::Value input =
        Ort::Value::CreateTensor<float>(memory, values.data(), values.size(), shape.data(), shape.size());
    const char* const x = "x";
    const char* const y = "y";
    const auto outputs = session.Run(Ort::RunOptions(), &x, &input, 1, &y, 1);
    for (std::size_t place = 0; place < 8; ++place) std::cout << outputs[0].GetTensorData<float>()[place] << ' ';
  } catch (const Ort::Exception& error) {
    std::cout << "error: " << error.what();
    return 1;
  }
}
"""


@pytest.mark.cxx
@pytest.mark.slow
@pytest.mark.parametrize("profile", ["openvino-ep", "cuda"])
def test_the_header_opens_a_session_with_the_provider(
    profile: str, bundle_for: BundleFor, openvino_build: Path, onnxruntime_headers: Path, tmp_path: Path
) -> None:
    """The build has OpenVINO's provider alone, and nodes may not run on the CPU."""
    bundle = bundle_for("(float[1, 8] x) => (float[1, 8] y) { y = Relu(x) }", profile)
    shutil.copy(bundle / "open_session.hpp", tmp_path)
    program = compiled(tmp_path, onnxruntime_headers, RUNS, *linked(openvino_build, tmp_path))
    done = subprocess.run([program, bundle], capture_output=True, text=True, check=False)
    if profile == "openvino-ep":
        assert done.stdout.split() == ["0", "0", "1", "2", "3", "4", "5", "6"], done.stderr
    else:
        assert done.returncode == 1
        assert done.stdout.startswith("error: ")
        assert "CUDA" in done.stdout
