"""The reference runtime: executes the ML Program of an ``.mlpackage`` on any OS.

It reads the package's own protobuf and weight file and shares no code with the converter, nor with coremltools, so
that its results are independent evidence of what a converted program computes.

Reading order: ``program`` (the program as data), ``package`` (from files to a program), ``registry`` (what a kernel
is), ``kernels`` (one file per family of operations), ``executor`` (planning and running a function), ``runner`` (the
public interface).
"""
