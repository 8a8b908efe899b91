"""A resolved stack, written down as plain TensorFlow code."""
