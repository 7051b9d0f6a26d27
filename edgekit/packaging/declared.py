"""Turns a bundle that the project file declares into a request to package it."""

from __future__ import annotations

from edgekit.comparison.custom_metric import Evaluation
from edgekit.config import DeclaredBundle
from edgekit.packaging.request import PackageRequest


def request_for(declared: DeclaredBundle) -> PackageRequest:
    """The request to package a declared bundle.

    Raises:
        InputError: The bundle's metric cannot be found.
    """
    return PackageRequest(
        model=declared.model,
        target=declared.target,
        output=declared.output,
        name=declared.name,
        data=declared.data,
        verify_data=declared.verify_data,
        label=declared.label,
        quantize=declared.quantize,
        quantizer=declared.quantizer,
        max_drop=declared.max_drop,
        floor_db=declared.floor,
        accept=declared.accept,
        evaluation=None if declared.metric is None else Evaluation(declared.metric, declared.folder),
        precision=declared.precision,
        shapes=declared.shapes,
        labels=declared.labels,
        preprocessing=declared.preprocessing,
        shares_preprocessing=declared.shares_preprocessing,
        outputs=declared.outputs,
        postprocess=declared.postprocess,
        states=declared.states,
        target_options=declared.options,
        also=declared.also,
        witness=declared.witness,
        output_chosen_with=declared.output_chosen_with,
    )
