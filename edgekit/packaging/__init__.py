"""From a model file to what ships: the stages in their order, and which form of the model holds what is asked of it."""
