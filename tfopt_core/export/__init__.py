"""Export a resolved stack as plain TensorFlow code."""
