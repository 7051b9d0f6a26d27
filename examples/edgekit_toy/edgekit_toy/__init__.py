"""One plugin of each kind, to start from: docs/extending.md explains them."""
