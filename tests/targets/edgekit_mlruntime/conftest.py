from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def ct() -> Any:
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    import coremltools

    return coremltools


@pytest.fixture(scope="session")
def mb(ct: Any) -> Any:
    from coremltools.converters.mil.mil import Builder

    return Builder


@pytest.fixture
def save(ct: Any, mb: Any, tmp_path: Path) -> Callable[..., Path]:
    """Saves a program, given as a function of its inputs, as a package built by coremltools, without graph passes."""

    def build(
        program: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        ios: int = 17,
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Path:
        from coremltools.converters.mil.mil import Function, Program

        specs = [mb.placeholder(*spec) if isinstance(spec, tuple) else spec for spec in arguments.values()]
        target = getattr(ct.target, f"iOS{ios}")
        built = Program()
        with Function(dict(zip(arguments, specs, strict=True)), opset_version=target) as function:
            results = program(**function.inputs)
            function.set_outputs(list(results) if isinstance(results, list | tuple) else [results])
        built.add_function("main", function)
        model = ct.convert(
            built,
            source="milinternal",
            convert_to="mlprogram",
            minimum_deployment_target=target,
            pass_pipeline=ct.PassPipeline.EMPTY,
            skip_model_load=True,
            **options,
        )
        for key, value in (metadata or {}).items():
            model.user_defined_metadata[key] = value if isinstance(value, str) else json.dumps(value)
        path = tmp_path / "program.mlpackage"
        model.save(str(path))
        return path

    return build
