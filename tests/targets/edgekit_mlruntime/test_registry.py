from __future__ import annotations

import pytest

import edgekit_mlruntime.kernels  # noqa: F401 - fills the registry
from edgekit_mlruntime.registry import find_kernel

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


@pytest.mark.parametrize("name", ["write_state", "coreml_update_state"])
def test_operators_that_only_packages_have(name):
    assert find_kernel(name, 17) is None
    assert find_kernel(name, 18) is not None
