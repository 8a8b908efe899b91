"""The commands of `tfopt`: each with its options, its steps and its exit code."""
