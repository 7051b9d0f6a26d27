"""What lowerings of several families share."""
