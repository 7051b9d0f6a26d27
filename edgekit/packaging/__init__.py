"""From a model file to what ships: runs the stages in order, until a form of the model meets the requirements."""
