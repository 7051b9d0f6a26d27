"""The fuzzer's cases; each is drawn only from a seed and its number, so that any case can be reproduced."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bombs
import honest
import mutations
import onnx
from sample_mutations import mutate_samples

TARGETS = ("onnxruntime", "intel-cpu", "ios18")
"""Targets whose bundles are mutated."""
BUNDLES: dict[str, tuple[str, ...]] = {
    **{target: ("--target", target) for target in TARGETS},
    "coreai": ("--target", "ios27"),
    "quantized": ("--target", "onnxruntime", "--data", "data", "--quantize", "int8", "--accept"),
}
"""The bundles that are mutated, by name, with the options that package ``m.onnx`` and ``data`` as the bundle."""
_PACKAGED_FOR = (*TARGETS, *TARGETS, *TARGETS, "ios16", "ios26", "web", "android-cpu", "intel-npu")


@dataclass(frozen=True)
class Case:
    """A command to run in a folder with prepared files."""

    kind: str
    """Kind of the case, a row of the table of results."""
    arguments: tuple[str, ...]
    what: str
    """Description of what was changed, for readers."""
    model: str | None = None
    """The mutated model's file, if the command's output can be compared with ONNX Runtime's results."""
    output: str | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    """Digests of the command's input files, which it must not change."""


def draw(seed: int, number: int, folder: Path, bundles: Path) -> Case:
    """Writes the files of a case into the folder, and returns the case.

    Args:
        seed: The run's seed.
        number: The case's number.
        folder: An empty folder.
        bundles: The folder that contains each of :data:`BUNDLES`.
    """
    rng = random.Random(f"{seed}/{number}")
    kinds = list(_KINDS)
    make = rng.choices(kinds, weights=[_KINDS[kind] for kind in kinds])[0]
    case = make(rng, folder, bundles)
    arguments = (*case.arguments, "--json") if rng.random() < 0.5 else case.arguments
    return Case(case.kind, arguments, case.what, case.model, case.output, digests(folder))


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 digests of the regular files below a folder, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _mutated_model(rng: random.Random, folder: Path, name: str | None = None) -> tuple[str, str, onnx.ModelProto]:
    """Writes ``m.onnx``; returns the honest model's name, a description of the changes, and the honest model."""
    if name is None and rng.random() < 0.12:
        kind, model = bombs.bomb(rng)
        honest.write_model("", folder / "m.onnx", model)
        return "bomb", f"bomb {kind}", model
    name = name or rng.choice(sorted(honest.MODELS))
    original = honest.MODELS[name]()
    model = honest.MODELS[name]()
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        change = mutations.mutate_graph if rng.random() < 0.6 else mutations.mutate_message
        done.append(change(model, rng))
    data = model.SerializeToString()
    if rng.random() < 0.2:
        texts = [node.name or node.output[0] for node in original.graph.node if node.output]
        data = (
            mutations.mutate_text_inside(data, texts, rng) if rng.random() < 0.4 else mutations.mutate_bytes(data, rng)
        )
        done.append("bytes")
    honest.write_model(name, folder / "m.onnx", data)
    return name, f"{name}: {'; '.join(done)}", original


def _inspect(rng: random.Random, folder: Path, _: Path) -> Case:
    _, what, _ = _mutated_model(rng, folder)
    return Case("inspect", ("inspect", "m.onnx"), what)


def _fix(rng: random.Random, folder: Path, _: Path) -> Case:
    _, what, _ = _mutated_model(rng, folder)
    dims = rng.choice((("--dim", "N=2"), ("--dim", "N=2"), ("--dim", "N=1..4"), ("--shape", "x=2,4,6"), ()))
    return Case("fix", ("fix", "m.onnx", *dims, "-o", "out.onnx"), what, "m.onnx", "out.onnx")


def _check(rng: random.Random, folder: Path, _: Path) -> Case:
    _, what, _ = _mutated_model(rng, folder)
    return Case("check", ("check", "m.onnx", "--target", rng.choice(_PACKAGED_FOR), *_dims(rng)), what)


def _quantize(rng: random.Random, folder: Path, _: Path) -> Case:
    name, what, original = _mutated_model(rng, folder)
    scheme = rng.choice(("int8", "int8", "auto", "int8-weights", "int4-weights", "int8-dynamic", "float16"))
    data: tuple[str, ...] = ()
    if scheme in ("int8", "auto"):
        honest.write_samples(original if name != "bomb" else honest.MODELS["net"](), folder / "data")
        data = ("--data", "data")
    arguments = ("quantize", "m.onnx", "--scheme", scheme, *data, *_dims(rng), "-o", "out.onnx")
    return Case("quantize", arguments, what, None, "out.onnx")


def _package(rng: random.Random, folder: Path, _: Path) -> Case:
    _, what, _ = _mutated_model(rng, folder)
    target = rng.choice(_PACKAGED_FOR)
    precision = ("--precision", rng.choice(("float32", "auto", "float16")))
    arguments = ("package", "m.onnx", "--target", target, *precision, *_dims(rng), "-o", "out")
    return Case("package", arguments, f"{target}: {what}", "m.onnx", "out")


def _extract(rng: random.Random, folder: Path, _: Path) -> Case:
    _, what, original = _mutated_model(rng, folder)
    names = [name for node in original.graph.node for name in (node.name, *node.input, *node.output)] + ["", ",", "x,"]
    start = ("--inputs", rng.choice(names)) if rng.random() < 0.5 else ()
    arguments = ("extract", "m.onnx", *start, "--outputs", rng.choice(names), "-o", "out.onnx")
    return Case("extract", arguments, what, None, "out.onnx")


def _init(rng: random.Random, folder: Path, _: Path) -> Case:
    """``init`` of a mutated model, with samples or without, some of them mutated."""
    name, what, original = _mutated_model(rng, folder)
    data: tuple[str, ...] = ()
    if rng.random() < 0.6:
        honest.write_samples(original if name != "bomb" else honest.MODELS["net"](), folder / "data")
        data = ("--data", "data")
        if rng.random() < 0.5:
            what += f"; {mutate_samples(rng, folder / 'data')}"
    return Case("init", ("init", "m.onnx", *data, "-o", "out"), what, None, "out")


def _dims(rng: random.Random) -> tuple[str, ...]:
    return ("--dim", rng.choice(("N=1", "N=1", "N=3"))) if rng.random() < 0.5 else ()


def _samples(rng: random.Random, folder: Path, bundles: Path) -> Case:
    """An honest model with mutated data."""
    kind = rng.choice(("npz", "npz", "picture", "sound"))
    name = {"picture": honest.PICTURE_MODEL, "sound": honest.SOUND_MODEL}.get(kind, "net")
    model = honest.MODELS[name]()
    honest.write_model(name, folder / "m.onnx", model)
    data = folder / "data"
    if kind == "npz":
        honest.write_samples(model, data)
    elif kind == "picture":
        honest.write_pictures(data)
    else:
        honest.write_sounds(data)
    what = f"{kind}: {mutate_samples(rng, data)}"
    if rng.random() < 0.3 and (data / "edgekit.toml").is_file():
        what += f"; {_mutate_toml(rng, data / 'edgekit.toml')}"
    command = rng.choice(("quantize", "package", "verify")) if kind != "sound" else "quantize"
    if command == "quantize":
        scheme = rng.choice(("int8", "auto"))
        arguments = ("quantize", "m.onnx", "--scheme", scheme, "--data", "data", "-o", "out.onnx")
        return Case("samples", arguments, what, None, "out.onnx")
    if command == "verify":
        shutil.copytree(bundles / "onnxruntime", folder / "b")
        return Case("samples", ("verify", "b", "--data", "data", "--model", "m.onnx"), what)
    arguments = ("package", "m.onnx", "--target", "onnxruntime", "--data", "data", "--quantize", "none", "-o", "out")
    return Case("samples", arguments, what, "m.onnx", "out")


def _bundle(rng: random.Random, folder: Path, bundles: Path) -> Case:
    """A command on a mutated bundle."""
    target = rng.choice(sorted(BUNDLES))
    bundle = folder / "b"
    shutil.copytree(bundles / target, bundle)
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    command = rng.choice(("verify", "verify", "bench", "gate", "report", "report", "package"))
    if rng.random() < 0.15:
        beside, what = _mutate_beside(rng, folder, manifest)
        arguments: tuple[str, ...] = (*beside[:1], "b", *beside[1:])
        return Case("bundle", arguments, f"{target} {what}", None)
    what = _mutate_bundle(rng, bundle, manifest)
    if command == "report":
        against: tuple[str, ...] = ()
        if rng.random() < 0.4:
            shutil.copytree(bundles / rng.choice(sorted(BUNDLES)), folder / "other")
            against = ("--against", "other")
        arguments = ("report", "b", *against, "-o", "out.html")
    elif command == "package":
        honest.write_model("net", folder / "m.onnx", honest.MODELS["net"]())
        arguments = ("package", "m.onnx", "--target", "onnxruntime", "-o", "b")
    elif command == "gate":
        (folder / "edgekit.toml").write_text('[budget]\nsize = "9 MB"\nlatency_ratio = 1000\n[gate]\ntime_limit = 1\n')
        arguments = ("gate", "b", "--config", "edgekit.toml")
    else:
        arguments = (command, "b")
    return Case("bundle", arguments, f"{target} {what}", None, "out.html" if command == "report" else None)


def _sign(rng: random.Random, folder: Path, bundles: Path) -> Case:
    """``sign`` with a key, or a mutated bundle or key."""
    target = rng.choice(sorted(BUNDLES))
    shutil.copytree(bundles / target, folder / "b")
    key = folder / "key"
    phrase = rng.choice(("", "", "secret"))
    if shutil.which("ssh-keygen") is None:
        key.write_bytes(b"")
        key.with_suffix(".pub").write_bytes(b"")
    else:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", phrase, "-f", key], check=True)
    what = "key"
    if rng.random() < 0.5:
        key = rng.choice((key, key.with_suffix(".pub")))
        content = rng.choice((mutations.mutate_bytes(key.read_bytes(), rng), b"", rng.choice(mutations.TEXTS).encode()))
        key.write_bytes(content)
        what += " mutated"
    if rng.random() < 0.7:
        manifest = json.loads((folder / "b" / "manifest.json").read_text(encoding="utf-8"))
        what += f"; {target} {_mutate_bundle(rng, folder / 'b', manifest)}"
    return Case("sign", ("sign", "b", "--key", key.name), what)


def _mutate_bundle(rng: random.Random, bundle: Path, manifest: dict[str, object]) -> str:
    files = sorted(path for path in bundle.rglob("*") if path.is_file() and path.name != "manifest.json")
    change = rng.choice(
        ("manifest", "manifest", "manifest", "document", "document", "file", "file", "special", "code", "raw", "added")
    )
    if change == "document":
        file = bundle / rng.choice(("measurements.json", "graph.json"))
        document = json.loads(file.read_text(encoding="utf-8"))
        for _ in range(rng.choice((1, 1, 2, 4))):
            document = mutations.mutate_document(document, rng)
        file.write_text(mutations.to_json(document), encoding="utf-8", errors="replace")
        if file.name == "graph.json":
            _hash_again(bundle, manifest)
        return file.name
    if change == "manifest":
        for _ in range(rng.choice((1, 1, 2, 4))):
            manifest = mutations.mutate_document(manifest, rng)
        (bundle / "manifest.json").write_text(mutations.to_json(manifest), encoding="utf-8", errors="replace")
        return "manifest"
    if change == "raw":
        file = bundle / "manifest.json"
        file.write_bytes(mutations.mutate_bytes(file.read_bytes(), rng))
        return "manifest's bytes"
    if change == "added":
        name = rng.choice(("numpy.py", "json.py", "sitecustomize.py", "notes.txt", "golden/x.npy", ".hidden"))
        (bundle / name).write_text(_TELLTALE)
        what = f"{name} added"
    else:
        file = (
            rng.choice([file for file in files if file.suffix == ".py"] or files)
            if change == "code"
            else rng.choice(files)
        )
        what = f"{file.relative_to(bundle)} {change}"
        if change == "code":
            file.write_text(_TELLTALE)
        elif change == "special":
            file.unlink()
            rng.choice(
                (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("/etc/passwd"))
            )(file)
            return what
        else:
            content = file.read_bytes()
            if file.suffix == ".npy" and rng.random() < 0.5:
                content = content.replace(b"'shape': (", b"'shape': (99999999, ", 1)
            file.write_bytes(mutations.mutate_bytes(content, rng))
    if rng.random() < 0.7:  # the manifest gets the hashes of the changed files
        _hash_again(bundle, manifest)
        what += ", hashed"
    return what


def _hash_again(bundle: Path, manifest: dict[str, object]) -> None:
    """Writes the manifest with the hashes of the files as they are now."""
    from edgekit.bundle import UNLISTED, file_records

    manifest["files"] = [record for record in file_records(bundle) if record["path"] not in UNLISTED]
    (bundle / "manifest.json").write_text(mutations.to_json(manifest), encoding="utf-8")


def _mutate_beside(rng: random.Random, folder: Path, manifest: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """Writes a mutated baseline, results of a device, or signers to check a bundle with.

    Returns the command's arguments and a description.
    """
    kind = rng.choice(("baseline", "results", "signers"))
    file = folder / f"{kind}.json"
    if kind == "signers":
        texts = ("", "a b", "* ssh-ed25519 AAAA", 'me@x namespaces="file" ssh-ed25519 AAAAC3Nz', "\x1b[31m\n::error::x")
        file.write_text(rng.choice(texts))
        (folder / "b" / "manifest.json.sig").write_bytes(
            rng.choice((b"", b"x", b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"))
        )
        return ("verify", "--signers", file.name), "signers"
    document: Any = {
        "baseline": {
            "schema_version": 1,
            "bundles": {
                manifest["name"]: {
                    "fingerprint": manifest["fingerprint"],
                    "size": 1000,
                    "accuracy": 0.5,
                    "latency": [
                        {
                            "machine": {"cpu": "x", "processors": 2, "system": "Linux x86_64"},
                            "ratio": 1.0,
                            "lower": 0.9,
                            "upper": 1.1,
                        }
                    ],
                }
            },
        },
        "results": {
            "format": 1,
            "manifest": (folder / "b" / "manifest.json").read_text(encoding="utf-8"),
            "executed_by": "a phone",
            "load_ms": 1.0,
            "samples": [
                {"milliseconds": 1.0, "outputs": [{"name": "scores", "values": "AAAAAAAA8D8" * 4}]}
                for _ in range(manifest["golden"]["samples"])
            ],
        },
    }[kind]
    for _ in range(rng.choice((0, 1, 1, 2))):
        document = mutations.mutate_document(document, rng)
    file.write_text(mutations.to_json(document), encoding="utf-8", errors="replace")
    if rng.random() < 0.2:
        file.write_bytes(mutations.mutate_bytes(file.read_bytes(), rng))
    if kind == "results":
        return ("verify", "--results", file.name), kind
    return ("gate", "--baseline", file.name), kind


_TELLTALE = "import os\nopen(os.environ['EDGEKIT_FUZZ_TELLTALE'], 'w').close()\n"
"""Code that must never run."""


def _metric(rng: random.Random, folder: Path, _: Path) -> Case:
    """A module of ``--metric`` that returns or does what a metric must not."""
    model = honest.MODELS["net"]()
    honest.write_model("net", folder / "m.onnx", model)
    honest.write_samples(model, folder / "data")
    lines = rng.choice(_METRICS)
    (folder / "measure.py").write_text(lines)
    name = rng.choice(("measure:f", "measure:f", "measure:f", "measure:g", "measure:", ":f", "nowhere:f", "a.b:c"))
    command, output = ("package", "out") if rng.random() < 0.5 else ("quantize", "out.onnx")
    more = ("--target", "onnxruntime") if command == "package" else ()
    arguments = (command, "m.onnx", *more, "--data", "data", "--metric", name, "-o", output)
    return Case("metric", arguments, f"{name} {lines[:60]!r}")


_METRICS = (
    "raise SystemExit(0)",
    "import os\nraise KeyboardInterrupt",
    "import sys\nsys.exit()",
    "def f(",
    "f = 3",
    "raise RuntimeError('\\x1b[31m\\n::error::x')",
    *(
        f"def f(*a, **k): return {value}"
        for value in (
            "float('nan')",
            "float('inf')",
            "-float('inf')",
            "None",
            "'x'",
            "1e400",
            "10**400",
            "[1]",
            "True",
            "1j",
            "{}",
            "-1",
            "2.5",
        )
    ),
    "def f(run, *a, **k): raise SystemExit(0)",
    "def f(*a, **k): raise KeyboardInterrupt",
    "def f(*a, **k): raise MemoryError",
    "def f(*a, **k): raise RuntimeError('\\x1b[2J\\n::add-mask::a')",
    "import os\ndef f(*a, **k): os._exit(0)",
    "import os\ndef f(*a, **k): os.abort()",
    "import numpy as np\ndef f(*a, **k): return np.float32('nan')",
    "import numpy as np\ndef f(*a, **k): return np.ones(3)",
    "def f(*a, **k):\n    print('\\x1b[31mred')\n    return 1.0",
    "def f(): return 1.0",
    "n = 0\ndef f(*a, **k):\n    global n\n    n += 1\n    return n * 1e300",
)


def _labels(rng: random.Random, folder: Path, _: Path) -> Case:
    """A mutated file of ``--labels``."""
    honest.write_model("net", folder / "m.onnx", honest.MODELS["net"]())
    file = folder / "labels.txt"
    kind = rng.randrange(4)
    if kind == 0:
        file.symlink_to(rng.choice(("/dev/zero", "/etc/passwd", "labels.txt", "nowhere")))
    elif kind == 1:
        os.mkfifo(file)
    elif kind == 2:
        file.write_text("\n".join(rng.choice(mutations.TEXTS) for _ in range(5)), errors="replace")
    else:
        file.write_bytes(mutations.mutate_bytes(honest.LABELS.encode(), rng))
    target = rng.choice(_PACKAGED_FOR)
    arguments = ("package", "m.onnx", "--target", target, "--labels", "labels.txt", "-o", "out")
    return Case("labels", arguments, f"labels {kind}", "m.onnx", "out")


def _project(rng: random.Random, folder: Path, bundles: Path) -> Case:
    """A mutated project file."""
    honest.write_model("net", folder / "net.onnx", honest.MODELS["net"]())
    (folder / "labels.txt").write_text(honest.LABELS)
    (folder / "edgekit.toml").write_text(honest.PROJECT)
    shutil.copytree(bundles / "onnxruntime", folder / "out")
    what = _mutate_toml(rng, folder / "edgekit.toml")
    if rng.random() < 0.3:
        file = folder / "labels.txt"
        file.write_bytes(mutations.mutate_bytes(file.read_bytes(), rng))
        what += "; labels"
    arguments = ("gate", "out", "--config", "edgekit.toml") if rng.random() < 0.6 else ("build",)
    return Case("project", arguments, what)


def _mutate_toml(rng: random.Random, file: Path) -> str:
    if rng.random() < 0.25:
        file.write_bytes(mutations.mutate_bytes(file.read_bytes(), rng))
        return "TOML's bytes"
    document = mutations.mutate_document(tomllib.loads(file.read_text(encoding="utf-8")), rng)
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            lines += [f"[{mutations.to_toml(key)}]"]
            lines += [f"{mutations.to_toml(inner)} = {mutations.to_toml(v)}" for inner, v in value.items()]
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for one in value:
                lines += [f"[[{mutations.to_toml(key)}]]"]
                lines += [f"{mutations.to_toml(inner)} = {mutations.to_toml(v)}" for inner, v in one.items()]
        else:
            lines.insert(0, f"{mutations.to_toml(key)} = {mutations.to_toml(value)}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")
    return "TOML"


_KINDS: dict[Callable[[random.Random, Path, Path], Case], float] = {
    _inspect: 7,
    _fix: 7,
    _check: 18,
    _quantize: 12,
    _package: 32,
    _extract: 3,
    _init: 3,
    _bundle: 14,
    _sign: 2,
    _samples: 8,
    _project: 5,
    _metric: 3,
    _labels: 2,
}
