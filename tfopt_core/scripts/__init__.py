"""Run unmodified Keras scripts in a private folder, and train their calls of `fit` with a stack."""
