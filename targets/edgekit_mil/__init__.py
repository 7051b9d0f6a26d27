"""ONNX to MIL, the language of Core ML's programs: what every ONNX operator becomes, and the program around it.

A library for targets whose systems run MIL. The rooms, each of which imports those below it only:

- ``program``: the whole. ``build`` makes a MIL program of a model; signature, flexible shapes, states, picture input
  and class output are its interface; ``description`` is what the package tells of itself.
- ``passes``: graph passes over a finished program. ``pipeline`` says which run, and why. Imports ``core`` only.
- ``walk``: ``lowering`` goes over an ONNX graph node by node, folds what is constant, expands function bodies, and
  collects every gap, so that one error lists all of them.
- ``ops``: the lowerings, one file a family: ``standard`` (ai.onnx), ``ml`` (ai.onnx.ml), ``microsoft``
  (com.microsoft, which may import ``standard``). ``catalogue`` finds the lowering of an operator.
- ``support``: what several families share: windows, recurrences, quantization, integer arithmetic, high ranks.
- ``core``: the words that all others are written in: ``mil`` (the one door to coremltools' program builder),
  ``values``, ``context`` (what a lowering sees), ``registry`` (how one is registered), ``exactness``.

``deployment`` knows the systems' versions and imports nothing heavy; ``table`` writes docs/coreml-operators.md.
Reading order: ``core.registry``, one family such as ``ops.standard.activation``, ``walk.lowering``, ``program.build``.
"""
