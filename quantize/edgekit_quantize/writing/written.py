"""The result of writing a candidate: the model, and an account of every layer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from edgekit_quantize.accounts.account import DYNAMIC, FLOAT, HALF, INTEGERS, STORED, LayerAccount


@dataclass
class Written:
    """A quantized model and the record of its quantization."""

    model: ir.Model
    accounts: list[LayerAccount] = field(default_factory=list)
    """How every layer, table and recurrent node was quantized, without the errors computed from samples."""
    keep_float: Collection[str] = ()
    """The layers that had to compute in float."""
    rounded_adaptively: Collection[str] = ()
    """The layers whose integers were chosen instead of rounding to nearest, by the names of
    :data:`edgekit_quantize.writing.candidate.Rounding`.
    """
    restricted: Mapping[str, int] = field(default_factory=dict)
    """Layers whose sums could have saturated in 16 bits, each with the number of output channels that were scaled."""

    @property
    def quantized(self) -> list[str]:
        """The names of the layers that compute with integers."""
        return [account.layer for account in self.accounts if account.done in {INTEGERS, DYNAMIC}]

    @property
    def has_fixed_ranges(self) -> bool:
        """Whether any layer computes with integers whose range was calibrated, instead of found in every run."""
        return any(account.done == INTEGERS for account in self.accounts)

    @property
    def stored(self) -> list[str]:
        """The names of the layers whose weights are only stored in a narrower type."""
        return [account.layer for account in self.accounts if account.done in {STORED, HALF}]

    @property
    def is_float(self) -> bool:
        """Whether no weight was quantized, for example because all tensors are small: only the graph was prepared."""
        return not self.quantized and not self.stored

    @property
    def kept_float(self) -> dict[str, str]:
        """The names of the layers that stay float, and why."""
        return {account.layer: account.how for account in self.accounts if account.done == FLOAT}
