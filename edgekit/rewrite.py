"""What a rewrite is: the contract between the host and whatever replaces ONNX nodes by other ONNX nodes.

A rewrite takes one node that a target refuses, or computes wrong, and gives operators of the ONNX standard that compute
the same. It knows no target: where it applies is decided by what a target's check says of the node, and each
application is proven before it counts. Rewrites are found by entry point (group ``edgekit.rewrites``), which names a
:class:`RewriteSet`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder

CONTRACT_VERSION = 1
"""Raised when a rewrite has to be changed to work with this file."""
OPSETS = range(1, 1000)
"""Every version of a domain's operator set."""


class InapplicableError(Exception):
    """A rewrite does not fit a node after all; the text says why."""


class Rewrite(ABC):
    """Replaces nodes of one kind by standard operators that compute the same."""

    name: ClassVar[str]
    """What ``check`` and the bundle's record call it."""
    op_types: ClassVar[Sequence[str]]
    """The operators that it takes."""
    domain: ClassVar[str] = ""
    """The operators' domain."""
    versions: ClassVar[range] = OPSETS
    """The versions of the domain's operator set, as the model imports it, for which it holds."""

    gives_steps: ClassVar[bool] = False
    """Whether its results are steps of a quantization: where a sum lies between two, another order of arithmetic may
    give the other one."""

    def matches(self, node: ir.Node) -> bool:
        """Whether it takes this node, whose operator and version fit."""
        return True

    @abstractmethod
    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Builds the nodes that take the node's place.

        Args:
            node: The node; types and shapes of its inputs are known as far as they can be inferred. It stays as it is.
            build: Makes the nodes, for the operator set that the model imports.

        Returns:
            A value for each of the node's outputs; None for one that nothing reads.

        Raises:
            InapplicableError: The node cannot be replaced.
        """


class RewriteSet(ABC):
    """What an entry point names: rewrites that are installed together."""

    contract_version: ClassVar[int]
    """The version of this contract that it is written for: :data:`CONTRACT_VERSION` as its author found it."""
    name: ClassVar[str]

    @property
    @abstractmethod
    def rewrites(self) -> Sequence[Rewrite]:
        """The rewrites; of several that take a node, the first whose result proves right counts."""
