"""Plugins for how TensorFlow runs: XLA, steps per execution, threads."""
