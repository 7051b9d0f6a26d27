"""What every lowering uses: values, the current node, the registry, the builder of MIL programs."""
