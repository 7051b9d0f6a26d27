from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

import edgekit_mlruntime.kernels  # noqa: F401 - fills the registry
from edgekit_mlruntime.registry import find_kernel, registered_operations

NEVER_IN_A_PACKAGE = {"_const_symbolic"}
"""Internal to coremltools."""
CONSTANT = "const"
"""No operation to the runtime."""


@pytest.mark.parametrize("ios", [15, 16, 17, 18])
def test_every_operator_of_coremltools_has_a_kernel_with_all_its_inputs(ct, ios):
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    target = getattr(ct.target, f"iOS{ios}")
    operators = {
        name: versions[target]
        for name, versions in SSAOpRegistry.core_ops.items()
        if target in versions and name not in NEVER_IN_A_PACKAGE | {CONSTANT}
    }
    assert len(operators) > 130
    lacking, unknown = [], {}
    for name, operator in operators.items():
        kernel = find_kernel(name, ios)
        if kernel is None:
            lacking.append(name)
            continue
        inputs = {name for name, _ in operator.input_spec._input_types if not name.startswith("_")}
        if inputs - kernel.parameters.keys():
            unknown[name] = inputs - kernel.parameters.keys()
    assert (lacking, unknown) == ([], {})


@pytest.mark.parametrize("ios", [15, 16, 17, 18])
def test_inputs_that_a_program_leaves_out_are_those_of_coremltools(ct, ios):
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    picture = SimpleNamespace(rank=4, shape=(2, 3, 5, 5), dtype=types.fp32)  # strides depend on the rank, for one
    compared, differ = 0, {}
    for name in registered_operations():
        operator = SSAOpRegistry.core_ops.get(name, {}).get(getattr(ct.target, f"iOS{ios}"))
        if operator is None:
            continue
        of_kernel = inspect.signature(find_kernel(name, ios).function).parameters
        operation = object.__new__(type("Operation", (operator,), {"__getattr__": lambda self, name: None}))
        vars(operation).update(x=picture, weight=picture, boxes=picture)
        for key, default in operator.default_inputs(operation).items():
            if default is picture or of_kernel[key].default is None:
                continue  # zeros or ones of a shape that depends on the input
            compared += 1
            given = of_kernel[key].default
            if given != default and not (np.size(given) and np.array_equal(np.ravel(given), np.ravel(default))):
                differ[f"{name} of iOS {operator.__module__.split('.')[-2]}: {key}"] = given, default
    assert compared > 100
    assert differ == {}


@pytest.mark.parametrize("name", ["write_state", "coreml_update_state"])
def test_operators_that_only_packages_have(name):
    assert find_kernel(name, 17) is None
    assert find_kernel(name, 18) is not None
