"""ONNX to MIL, the language of Core ML's programs: what every ONNX operator becomes, and the program around it.

A library for targets whose systems run MIL. Its packages, each of which imports only those below it:

- ``program``: the whole program. ``build`` makes a MIL program of a model; signature, flexible shapes, states, picture
  input and class output are its interface; ``description`` is what the package states about itself.
- ``passes``: graph passes over a finished program. ``pipeline`` says which passes run, and why. Imports ``core`` only.
- ``lowering``: ``graph`` goes over an ONNX graph node by node, folds what is constant, expands function bodies, and
  collects every gap, so that one error lists all of them.
- ``ops``: the lowerings, one file for each family: ``standard`` (ai.onnx) and ``microsoft`` (com.microsoft, which may
  import ``standard``). ``catalogue`` finds the lowering of an operator.
- ``support``: code that several families share: windows, recurrences, quantization, integer arithmetic, high ranks.
- ``core``: what all other packages use: ``mil`` (the only access to coremltools' program builder), ``values``,
  ``context`` (what a lowering sees), ``registry`` (how one is registered), ``exactness``, ``zero_guards``.

``deployment`` knows the systems' versions and imports nothing heavy; ``table`` writes docs/coreml-operators.md.
Reading order: ``core.registry``, one family such as ``ops.standard.activation``, ``lowering.graph``, ``program.build``.
"""
