"""Replaces calls of functions by the functions' nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, RemoveUnusedFunctionsPass

from edgekit.graph.reading.function_opsets import agree_on_versions


def inline_functions(graph_model: ir.Model) -> None:
    """Inlines all functions, in place.

    Functions that call others are inlined first, so that the names in each copied body are already unique. The pass of
    onnx_ir counts up from every name that it copies, which takes time quadratic in the number of copies.

    Args:
        graph_model: A model whose functions do not call themselves.

    Raises:
        ValueError: A function does not fit its calls.
    """
    agree_on_versions(graph_model)
    for function in _callees_first(graph_model.functions):
        called = {callee.identifier(): callee for callee in _called(function, graph_model.functions)}
        if called:
            InlinePass()(ir.Model(function.graph, ir_version=graph_model.ir_version, functions=[*called.values()]))
    InlinePass()(graph_model)
    RemoveUnusedFunctionsPass()(graph_model)  # type: ignore[no-untyped-call]  # as onnx_ir declares it


def _called(function: ir.Function, functions: Mapping[ir.OperatorIdentifier, ir.Function]) -> Iterator[ir.Function]:
    names = dict.fromkeys(node.op_identifier() for node in function.graph.all_nodes())
    return (functions[name] for name in names if name in functions)


def _callees_first(functions: Mapping[ir.OperatorIdentifier, ir.Function]) -> Iterator[ir.Function]:
    done: set[ir.OperatorIdentifier] = set()
    waiting = [(function, False) for function in functions.values()]
    while waiting:
        function, is_ready = waiting.pop()
        if function.identifier() in done:
            continue
        if is_ready:
            done.add(function.identifier())
            yield function
        else:
            waiting += chain([(function, True)], ((callee, False) for callee in _called(function, functions)))
