"""The reference runtime: executes the ML Program of an ``.mlpackage`` on any OS.

It reads the package's own protobuf and weight file and shares no code with the converter, nor with coremltools: it is
the witness of what a conversion computes.

Reading order: ``program`` (the program as data), ``package`` (from files to a program), ``registry`` (what a kernel
is), ``kernels`` (one file a family of operations), ``executor`` (planning and running a function), ``runner`` (the
public face).
"""
