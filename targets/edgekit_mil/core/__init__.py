"""What every lowering is written in: values, the node at hand, the registry, the builder of MIL programs."""
