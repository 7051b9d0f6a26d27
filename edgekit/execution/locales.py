"""Locales by which texts change their case, and locales of this system that change it the same way.

scikit-learn's exporter names no locale, which ONNX Runtime takes as en_US.UTF-8 on most systems. A container often has
only C.UTF-8, which changes letters by the same tables of Unicode.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx.helper import make_attribute

from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.graph.reading.subgraphs import written_nodes
from edgekit.graph.words.tokenizers import DEFAULT_LOCALE, changes_as_unicode
from edgekit.model import Model

_READER = "StringNormalizer"
_ALIKE = ("C.UTF-8", "en_US.UTF-8")
"""Locales that change letters by Unicode's simple mapping, the most frequent one first."""
_CHANGE = (
    '<ir_version: 8, opset_import: ["" : 17]>\n'
    'f (string[1] x) => (string[1] y) {{ y = StringNormalizer <case_change_action = "LOWER", locale = "{}"> (x) }}'
)


def name_known_locales(proto: onnx.ModelProto) -> list[str]:
    """If this system lacks the locale by which a node changes texts, names one that it has, in place.

    A locale is only replaced by one that changes letters the same way; other locales stay.

    Returns:
        What was changed, in words.
    """
    warnings = []
    for node in written_nodes(proto):
        if node.op_type != _READER or node.domain:
            continue
        named = next((each for each in node.attribute if each.name == "locale"), None)
        locale = (named.s.decode() if named is not None else "") or DEFAULT_LOCALE
        if not changes_as_unicode(locale) or _is_known(locale):
            continue
        other = next(filter(_is_known, _ALIKE), None)
        if other is None:
            continue
        if named is not None:
            node.attribute.remove(named)
        node.attribute.append(make_attribute("locale", other))
        warnings.append(
            f"node {node.name or node.output[0]!r} ({_READER}) changes texts by the locale {locale}, which this "
            f"system does not have: {other} is used instead, which changes letters the same way; a bundle that keeps "
            f"the node needs {other} on its device"
        )
    return warnings


def _is_known(locale: str) -> bool:
    try:
        Reference(Model(ir.from_proto(onnx.parser.parse_model(_CHANGE.format(locale)))))
    except NotRunnableError:
        return False
    return True
