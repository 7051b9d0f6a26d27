"""Adds the errors of layers to a written candidate's accounts, from the calibration statistics of their inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import onnx_ir as ir

from edgekit.comparison.numbers.metrics import decibels
from edgekit_quantize.accounts.account import STORED, LayerAccount, largest_error_first
from edgekit_quantize.accounts.errors import LayerError, layer_errors, stored_db
from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer, layers
from edgekit_quantize.integers.qparams import sum_of_squares
from edgekit_quantize.placement import place
from edgekit_quantize.settings import Settings


def with_errors(
    accounts: Sequence[LayerAccount], prepared: ir.Model, settings: Settings, tensors: Mapping[str, TensorStatistics]
) -> list[LayerAccount]:
    """The accounts with the error of every layer, the largest first; for float layers the error integers would add.

    Args:
        accounts: The accounts of the written candidate.
        prepared: The model that the candidate was written from.
        settings: The settings that the candidate was written with.
        tensors: The statistics of the layers' inputs; empty if there were no samples.
    """
    found = {layer.name: layer for layer in layers(prepared.graph)}
    plan = place(prepared.graph, settings, tensors=tensors)
    errors = {error.layer: error for error in layer_errors(plan, tensors)} if tensors else {}
    return largest_error_first(
        _with_error(account, errors.get(account.layer), found.get(account.layer), tensors) for account in accounts
    )


def _with_error(
    account: LayerAccount, error: LayerError | None, layer: Layer | None, tensors: Mapping[str, TensorStatistics]
) -> LayerAccount:
    if error is not None:
        errors = {name: value for name, value in asdict(error).items() if name not in {"layer", "kind"}}
        return replace(account, **errors)
    tensor = tensors.get(account.source)
    if tensor is not None:
        account = _with_extremes(account, tensor.histogram)
    if account.params is None or account.weights is None:
        return account
    if layer is None:
        power = decibels(sum_of_squares(account.weights), account.params.squared_error(account.weights))
    else:
        power = stored_db(layer, account.params, tensor)
    return replace(account, sqnr_db=power if account.done == STORED else None, weights_db=power)


def _with_extremes(account: LayerAccount, histogram: Histogram) -> LayerAccount:
    if histogram.is_empty:
        return account
    power = histogram.sum_of_squares / histogram.total
    outliers = max(-histogram.low, histogram.high) / math.sqrt(power) if power else 0.0
    return replace(account, low=histogram.low, high=histogram.high, outliers=outliers)
