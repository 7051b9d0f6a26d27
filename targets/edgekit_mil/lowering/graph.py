"""Lowers an ONNX graph node by node into the current MIL block.

Each node is folded if all its inputs are known, else lowered by its entry in the registry, else expanded into the
function body that its schema or the model defines. A node for which none of these works is a gap; the
others are lowered all the same, so that one error lists every gap of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir

from edgekit.errors import EdgeKitError, InputError, InternalError, OpGap
from edgekit.execution.processor_layouts import LAID_OUT, OPTIMIZE_LESS, is_laid_out
from edgekit_mil.core.context import Context, output_values
from edgekit_mil.core.mil import ct, drop_unfinished
from edgekit_mil.core.registry import Lowering
from edgekit_mil.core.values import (
    FIX_SIZES,
    HIGHEST_RANK,
    HINTS_OF_FIXED_INPUTS,
    Infeasible,
    Unsupported,
    Value,
    constant,
)
from edgekit_mil.lowering import feasibility, folding, function_bodies
from edgekit_mil.lowering.nodes import (
    Scope,
    attribute_value,
    bound_attributes,
    domain_of,
    is_used,
    mil_name,
    node_is_plain,
    node_name,
    qualified,
    rebound,
    schema_of,
)
from edgekit_mil.ops import catalogue
from edgekit_mil.support import high_ranks, symbolic_sizes

NO_NUMBER = ("Cannot convert symbols to int", "'Symbol' object cannot be interpreted as an integer")
"""Parts of the error messages of a lowering that uses an open size, a symbol, as a number."""


class GraphLowering:
    """Lowers one model; afterwards ``gaps`` has what could not be lowered, ``notes`` what was left out.

    Args:
        model: The model; its functions are expanded where they are called.
        target: The deployment target.
    """

    def __init__(self, model: ir.Model, target: ct.target) -> None:
        self.gaps: list[OpGap] = []
        self.notes: list[str] = []
        self._model = model
        self._target = target
        self._taken_names: set[str] = set()
        self._infeasible = 0
        self._is_fixed = False

    def lower_main(self, inputs: Sequence[Value]) -> list[Value | None]:
        """Lower the main graph; returns the outputs' values, None for one behind a gap.

        The nodes are sorted first: some tools append nodes that belong further up, and runtimes accept such graphs.

        Raises:
            edgekit.errors.InputError: The graph has a cycle.
        """
        try:
            self._model.graph.sort()
        except ValueError as error:
            raise InputError("the graph has a cycle", found=str(error)) from error
        scope = Scope({}, dict(self._model.opset_imports))
        self._is_fixed = all(value.is_static for value in inputs)
        return self._lower_graph(self._model.graph, inputs, scope)

    def _lower_graph(self, graph: ir.Graph, inputs: Sequence[Value | None], scope: Scope) -> list[Value | None]:
        formal = [value for value in graph.inputs if value.name not in graph.initializers]
        if len(formal) != len(inputs):
            formal = list(graph.inputs)  # a subgraph's inputs are all fed
        scope.values.update(zip(formal, inputs, strict=True))
        for value in graph.initializers.values():
            if value not in scope.values and value.const_value is not None:
                scope.values[value] = constant(value.const_value.numpy(), value.const_value.dtype)
        for node in graph:
            self._lower_node(node, scope)
        return [scope.values[value] for value in graph.outputs]

    def _lower_node(self, node: ir.Node, scope: Scope) -> None:
        given = [None if value is None or value in scope.left_out else value for value in node.inputs]
        inputs = [None if value is None else scope.values[value] for value in given]
        behind_gap = any(value is not None and scope.values[value] is None for value in given)
        try:
            if behind_gap:
                self._require_known(node, scope)
                results: list[Value | None] = []
            else:
                results = self._evaluate(node, inputs, scope)
        except EdgeKitError:
            raise
        except Exception as error:
            drop_unfinished()
            gap = self._gap(error, node, inputs, scope)
            self._infeasible += isinstance(gap, Infeasible)
            hint = HINTS_OF_FIXED_INPUTS.get(gap.hint, gap.hint) if self._is_fixed else gap.hint
            self.gaps.append(OpGap(op_type=qualified(node), node=node_name(node, scope), reason=gap.reason, hint=hint))
            results = []
        results += [None] * (len(node.outputs) - len(results))
        for output, result in zip(node.outputs, results, strict=False):
            scope.values[output] = result
            self._name_variable(output, result)

    def _gap(self, error: Exception, node: ir.Node, inputs: Sequence[Value | None], scope: Scope) -> Unsupported:
        """Returns the gap to report for a node that could not be lowered.

        Raises:
            edgekit.errors.InputError: The node breaks a rule of ONNX.
            edgekit.errors.InternalError: Neither the operator nor the model is to blame.
        """
        if isinstance(error, Infeasible):
            return error
        plain = rebound(node, bound_attributes(node, scope), given=[value is not None for value in inputs])
        schema = schema_of(node, scope.opsets)
        rule = None if isinstance(error, Unsupported) else feasibility.broken_rule(plain, schema, scope.opsets)
        if rule is not None:
            raise InputError(
                f"{qualified(node)} {node_name(node, scope)!r} breaks the rules of ONNX: {rule}",
                hint="export the model again, with a newer exporter if there is one",
            ) from error
        reason = feasibility.contradiction(plain, inputs, scope.opsets)
        if reason is not None and isinstance(error, Unsupported):
            return Infeasible(error.reason, error.hint)
        if reason is not None:
            return Infeasible(f"cannot run with inputs of these shapes: {reason}", "check what the shapes are fixed to")
        if isinstance(error, Unsupported):
            return error
        wrong_type = feasibility.type_contradiction(schema, inputs)
        if wrong_type is not None:
            return Unsupported(wrong_type, "check what exported the model: runtimes refuse it, too")
        if isinstance(error, TypeError) and any(text in str(error) for text in NO_NUMBER):
            open_shapes = [value.shape_text for value in inputs if value is not None and not value.is_static]
            return Unsupported(f"needs fixed sizes, found {', '.join(open_shapes)}", FIX_SIZES)
        reason = feasibility.refusal_by_reference(plain, inputs, scope.opsets)
        if reason is not None:
            return Infeasible(f"cannot run with inputs of these shapes: {reason}", "check what the shapes are fixed to")
        data = inputs[0] if inputs else None
        if data is not None and 0 in data.shape and isinstance(error, IndexError | ValueError):
            return Unsupported(f"has no lowering for an input without elements, of shape {data.shape_text}")
        raise InternalError(
            "lowering a node failed", subject=f"{qualified(node)} {node_name(node, scope)!r}", found=repr(error)
        ) from error

    def _evaluate(self, node: ir.Node, inputs: list[Value | None], scope: Scope) -> list[Value | None]:
        attributes = bound_attributes(node, scope)
        schema = schema_of(node, scope.opsets)
        own = self._model.functions.get((node.domain, node.op_type, node.overload))
        if own is not None:
            return self._expand(node, function_bodies.Body(own, (True,) * len(own.outputs)), inputs, attributes, scope)
        bound = node if node_is_plain(node) else rebound(node, attributes)
        if folding.is_foldable(bound, schema, inputs):
            folded = folding.fold(bound, scope.opsets, inputs)
            if folded is not None:
                return folded
        version = schema.since_version if schema is not None else 1
        entry = catalogue.find(domain_of(node), node.op_type, version)
        known = entry.attributes if entry is not None else function_bodies.known_attributes(schema)
        unknown = sorted(set(attributes) - known) if known is not None else []
        if unknown:
            raise Unsupported(f"attribute {', '.join(unknown)} is not known for version {version}")
        if entry is None:
            body = self._function_body(node, schema, inputs, scope)
            if body is None:
                raise Unsupported(*self._missing(node, version))
            return self._expand(node, body, inputs, attributes, scope)
        try:
            results = self._apply(entry, node, schema, inputs, attributes, scope, version)
            return with_elements(node, inputs, attributes, results)
        except Infeasible:
            raise
        except Unsupported:
            # The function body of the operator may avoid what its lowering cannot convert.
            body = self._function_body(node, schema, inputs, scope)
            if body is None:
                raise
            drop_unfinished()
            before = len(self.gaps)
            results = self._expand(node, body, inputs, attributes, scope)
            if len(self.gaps) == before:
                return results
            del self.gaps[before:]
            raise

    def _apply(
        self,
        entry: Lowering,
        node: ir.Node,
        schema: onnx.defs.OpSchema | None,
        inputs: list[Value | None],
        attributes: Mapping[str, ir.Attr],
        scope: Scope,
        version: int,
    ) -> list[Value | None]:
        if entry.most_inputs is not None and len(inputs) > entry.most_inputs:
            extra = [value for value in inputs[entry.most_inputs :] if value is not None]
            if extra:
                raise Unsupported(f"takes {entry.most_inputs} inputs, found {len(inputs)}")
            inputs = inputs[: entry.most_inputs]

        def lower_graph(graph: ir.Graph, values: Sequence[Value]) -> list[Value]:
            inner = Scope(
                dict(scope.values),
                scope.opsets,
                scope.attributes,
                scope.left_out,
                (*scope.path, node_name(node, scope)),
            )
            before, infeasible = len(self.gaps), self._infeasible
            results = self._lower_graph(graph, values, inner)
            if self._infeasible > infeasible:
                gaps = self.gaps[before:]
                del self.gaps[before:]
                raise Infeasible("; ".join(f"{gap.node}: {gap.reason}" for gap in gaps))
            if len(self.gaps) > before or any(result is None for result in results):
                raise Unsupported("its body has operators that cannot be converted")
            return [result for result in results if result is not None]

        if entry.elementwise and any(value is not None and value.rank > HIGHEST_RANK for value in inputs):
            merged, shape = high_ranks.broadcast_merged(inputs)
            results = self._apply(entry, node, schema, merged, attributes, scope, version)
            tellers = [value for value in inputs if value is not None]
            return [None if result is None else high_ranks.of_shape(result, shape, *tellers) for result in results]

        ctx = Context(
            op_type=node.op_type,
            domain=domain_of(node),
            version=version,
            name=node_name(node, scope),
            output_used=tuple(is_used(value) for value in node.outputs),
            target=self._target,
            lower_graph=lower_graph,
            note=self._note,
        )
        keywords = {name: attribute_value(attr) for name, attr in attributes.items()}
        result = entry.function(ctx, *inputs, **keywords)
        return output_values(ctx, schema, inputs, result)

    def _note(self, text: str) -> None:
        """Add a note, once only: a part of the graph may be lowered twice."""
        if text not in self.notes:
            self.notes.append(text)

    def _function_body(
        self, node: ir.Node, schema: onnx.defs.OpSchema | None, inputs: Sequence[Value | None], scope: Scope
    ) -> function_bodies.Body | None:
        """The function that the schema defines for the node."""
        if schema is None:
            return None
        plain = rebound(node, bound_attributes(node, scope), given=[value is not None for value in inputs])
        return function_bodies.schema_body(schema, plain, inputs, scope.opsets.get("", 1))

    def _expand(
        self,
        node: ir.Node,
        definition: function_bodies.Body,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, ir.Attr],
        scope: Scope,
    ) -> list[Value | None]:
        body = definition.function
        bindings = {name: attr for name, attr in body.attributes.items() if attr.value is not None}
        bindings.update(function_bodies.schema_defaults(schema_of(node, scope.opsets)))
        bindings.update(attributes)
        opsets = {**scope.opsets, **body.opset_imports}
        inner = Scope({}, opsets, bindings, path=(*scope.path, node_name(node, scope)))
        given = [*inputs, *([None] * (len(body.inputs) - len(inputs)))]
        for formal, actual in zip(body.inputs, given, strict=True):
            if actual is None:
                inner.left_out.add(formal)
            else:
                inner.values[formal] = actual
        for inner_node in body:
            self._lower_node(inner_node, inner)
        results = iter([inner.values[value] for value in body.outputs])
        return [next(results) if computes else None for computes in definition.outputs]

    def _require_known(self, node: ir.Node, scope: Scope) -> None:
        """Raises Unsupported for a node behind a gap if nothing could lower it, even if its inputs were known."""
        schema = schema_of(node, scope.opsets)
        version = schema.since_version if schema is not None else 1
        known = catalogue.find(domain_of(node), node.op_type, version) is not None
        own = (node.domain, node.op_type, node.overload) in self._model.functions
        if not (known or own or function_bodies.has_body(schema)):
            raise Unsupported(*self._missing(node, version))

    def _missing(self, node: ir.Node, version: int) -> tuple[str, str]:
        known = catalogue.known_versions(domain_of(node), node.op_type)
        if known:
            listed = ", ".join(map(str, known))
            return f"version {version} has no lowering; there are: {listed}", "convert the model to another opset"
        if is_laid_out(node):
            return LAID_OUT, OPTIMIZE_LESS
        if node.domain not in function_bodies.STANDARD_DOMAINS:
            return f"no lowering in domain {node.domain}", "export the model with standard operators only"
        return "no lowering", "replace the operator, or cut the model with `edgekit extract`"

    def _name_variable(self, output: ir.Value, result: Value | None) -> None:
        """Give the program's variable the ONNX value's name, so that intermediate results can be found by name."""
        if result is None or result.variable is None or not output.name or result.variable.op is None:
            return
        name = mil_name(output.name)
        if name not in self._taken_names and result.variable.name not in self._taken_names:
            self._taken_names.add(name)
            result.variable.name = name
            if len(result.variable.op.outputs) == 1:
                result.variable.op.name = name  # passes derive other names from it


def with_elements(
    node: ir.Node, inputs: Sequence[Value | None], attributes: Mapping[str, ir.Attr], results: list[Value | None]
) -> list[Value | None]:
    """Returns the results; if the first one is a vector of sizes, with what each of its elements is.

    The vector becomes a constant if all of its elements are numbers, so that what is computed from it is folded.
    """
    if domain_of(node) or not results or results[0] is None or results[0].variable is None:
        return results
    plain = {name: attribute_value(attr) for name, attr in attributes.items()}
    elements = symbolic_sizes.elements_of(node.op_type, inputs, plain)
    if elements is None:
        return results
    first = results[0]
    if first.dtype.is_integer() and all(isinstance(each, int | np.integer) for each in elements.reshape(-1)):
        return [constant(elements.astype(first.dtype.numpy()), first.dtype), *results[1:]]
    return [replace(first, elements=elements), *results[1:]]
