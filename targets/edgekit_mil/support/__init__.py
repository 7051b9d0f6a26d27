"""Code that lowerings of several families share."""
