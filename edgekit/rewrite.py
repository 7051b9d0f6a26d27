"""What a rewrite is: the contract between the host and whatever replaces ONNX nodes by other ONNX nodes.

A rewrite takes one node that a target refuses or computes incorrectly, and replaces it by operators of the ONNX
standard that compute the same. A rewrite knows no target: the verdict of a target's check on a node decides whether the
rewrite is applied, and each application is proven before it is kept. Rewrites are found by entry point (group
``edgekit.rewrites``), which names a :class:`RewriteSet`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder

CONTRACT_VERSION = 1
"""Increased whenever existing rewrites have to be changed to work with this file."""
OPSETS = range(1, 1000)
"""Every version of a domain's operator set."""


class InapplicableError(Exception):
    """A rewrite does not fit a node after all; the text says why."""


class Rewrite(ABC):
    """Replaces nodes of one kind by standard operators that compute the same."""

    name: ClassVar[str]
    """The rewrite's name in ``check`` and in the bundle's record."""
    op_types: ClassVar[Sequence[str]]
    """The operators that the rewrite replaces."""
    domain: ClassVar[str] = ""
    """The operators' domain."""
    versions: ClassVar[range] = OPSETS
    """The versions of the domain's operator set, as the model imports it, for which the rewrite is valid."""

    gives_steps: ClassVar[bool] = False
    """Whether the results are quantization steps: if a sum lies between two steps, another order of arithmetic may
    give the other step."""

    def matches(self, node: ir.Node) -> bool:
        """Whether the rewrite applies to this node, whose operator and version fit already."""
        return True

    @abstractmethod
    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Builds the nodes that take the node's place.

        Args:
            node: The node; types and shapes of its inputs are known as far as they can be inferred. Do not change it.
            build: Makes the nodes, for the operator set that the model imports.

        Returns:
            A value for each of the node's outputs; None for one that nothing reads.

        Raises:
            InapplicableError: The node cannot be replaced.
        """


class RewriteSet(ABC):
    """Rewrites that are installed together; an entry point names a subclass."""

    contract_version: ClassVar[int]
    """The value of :data:`CONTRACT_VERSION` for which the rewrites were written, as a literal number."""
    name: ClassVar[str]

    @property
    @abstractmethod
    def rewrites(self) -> Sequence[Rewrite]:
        """The rewrites; if several apply to a node, the first whose result is proven correct is used."""
