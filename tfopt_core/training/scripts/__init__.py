"""Unmodified Keras scripts: run in a private folder, trained in place of their calls of `fit`."""
