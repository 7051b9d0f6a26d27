from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import edgekit_coreml
from edgekit.errors import InputError
from edgekit_mlruntime.package import model_file, read_package
from edgekit_mlruntime.program import DataType, TensorType
from edgekit_mlruntime.protobuf import model_class


def test_a_program_is_read_with_types_constants_and_metadata(save, mb):
    weight = np.arange(24, dtype=np.float32).reshape(4, 6)
    path = save(lambda x: mb.linear(x=x, weight=weight, name="out"), {"x": ((2, 6),)}, metadata={"key": "value"})
    program = read_package(path)
    function = program.functions["main"]
    assert (program.specification_version, function.opset) == (8, "CoreML7")
    assert program.default_function == "main"
    assert program.user_metadata["key"] == "value"
    assert function.inputs[0].type == TensorType(DataType.FLOAT32, (2, 6))
    constants = {op.outputs[0].name: op.attributes["val"] for op in function.block.operations if op.type == "const"}
    (stored,) = (value.read() for value in constants.values() if value.type == TensorType(DataType.FLOAT32, (4, 6)))
    np.testing.assert_array_equal(stored, weight)
    linear = function.block.operations[-1]
    assert (linear.type, linear.name, linear.outputs[0].type) == ("linear", "out", TensorType(DataType.FLOAT32, (2, 4)))


@pytest.mark.parametrize(
    ("ios", "opset"), [(15, "CoreML5"), (16, "CoreML6"), (17, "CoreML7"), (18, "CoreML8"), (26, "CoreML9")]
)
def test_every_specification_version_runs(save, mb, ios, opset):
    path = save(lambda x: mb.relu(x=x, name="out"), {"x": ((2,),)}, ios=ios)
    assert read_package(path).functions["main"].opset == opset
    assert edgekit_coreml.load(path).run({"x": np.float32([-1, 2])})["out"].tolist() == [0, 2]


def test_functions_are_chosen_by_name(ct, save, mb, tmp_path):
    parts = {}
    for name, factor in (("double", 2.0), ("triple", 3.0)):
        built = save(lambda x, factor=factor: mb.mul(x=x, y=factor, name="out"), {"x": ((2,),)}, ios=18)
        parts[name] = built.rename(tmp_path / f"{name}.mlpackage")
    description = ct.utils.MultiFunctionDescriptor()
    for name, path in parts.items():
        description.add_function(str(path), src_function_name="main", target_function_name=name)
    description.default_function_name = "triple"
    ct.utils.save_multifunction(description, str(tmp_path / "both.mlpackage"))
    x = np.float32([1, 2])
    for function, expected in ((None, [3, 6]), ("double", [2, 4]), ("triple", [3, 6])):
        runner = edgekit_coreml.load(tmp_path / "both.mlpackage", function)
        assert runner.run({"x": x})["out"].tolist() == expected
    with pytest.raises(InputError, match="no such function\nexpected: double, triple\nfound: main"):
        edgekit_coreml.load(tmp_path / "both.mlpackage", "main")


def test_what_is_no_package_is_refused(tmp_path, save, mb):
    with pytest.raises(InputError, match=r"not an \.mlpackage"):
        edgekit_coreml.load(tmp_path)
    broken = tmp_path / "broken.mlpackage"
    broken.mkdir()
    (broken / "Manifest.json").write_text(json.dumps({"itemInfoEntries": {}}))
    with pytest.raises(InputError, match="names no root model"):
        edgekit_coreml.load(broken)
    path = save(lambda x: mb.relu(x=x, name="out"), {"x": ((2,),)})
    model_file(path).write_bytes(b"\xff\xff\xff")
    with pytest.raises(InputError, match="not a Core ML protobuf"):
        edgekit_coreml.load(path)
    model_file(path).write_bytes(b"")
    with pytest.raises(InputError, match="not an ML Program"):
        edgekit_coreml.load(path)
    model_file(path).unlink()
    with pytest.raises(InputError, match="cannot be read: no such file"):
        edgekit_coreml.load(path)


def test_an_element_type_that_is_not_known_is_refused(save, mb):
    path = save(lambda x: mb.relu(x=x, name="out"), {"x": ((2,),)})
    model = model_class().FromString(model_file(path).read_bytes())
    model.mlProgram.functions["main"].inputs[0].type.tensorType.dataType = 99
    model_file(path).write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="not known\nexpected: one of MIL's, up to 41\nfound: 99"):
        read_package(path)


@pytest.mark.parametrize("name", ["/dev/zero", "../../../elsewhere", "a/../../b"])
def test_what_a_package_names_lies_inside_of_it(tmp_path, name):
    package = tmp_path / "p.mlpackage"
    package.mkdir()
    manifest = {"rootModelIdentifier": "m", "itemInfoEntries": {"m": {"path": name}}}
    (package / "Manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="the package names a file outside of it\nfound: ") as raised:
        edgekit_coreml.load(package)
    assert str(raised.value).endswith(name)


def test_weights_lie_inside_of_the_package(save, mb):
    path = save(lambda x: mb.linear(x=x, weight=np.ones((400, 60), np.float32), name="out"), {"x": ((2, 60),)})
    data = model_file(path).read_bytes()
    inside, outside = b"@model_path/weights/weight.bin", b"@model_path/../weights/weight0"
    assert inside in data
    model_file(path).write_bytes(data.replace(inside, outside))
    with pytest.raises(InputError, match=r"the package names a file outside of it\nfound: \.\./weights/weight0"):
        edgekit_coreml.load(path)


@pytest.mark.parametrize("runtime_first", [True, False])
def test_the_reader_and_coremltools_get_along_in_one_process(save, mb, runtime_first):
    """And the reader does without coremltools: its import takes seconds, and the two are to share no code."""
    path = save(lambda x: mb.relu(x=x, name="out"), {"x": ((2,),)})
    steps = [
        f"import edgekit_coreml; edgekit_coreml.load({str(path)!r}).run({{'x': numpy.float32([1, 2])}})",
        f"import coremltools; coremltools.utils.load_spec({str(path)!r})",
    ]
    check = "assert 'coremltools' not in sys.modules" if runtime_first else ""
    script = "\n".join(["import numpy, sys", *(steps if runtime_first else steps[::-1])])
    script = script.replace("\nimport coremltools", f"\n{check}\nimport coremltools") if check else script
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
