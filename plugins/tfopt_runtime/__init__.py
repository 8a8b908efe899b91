"""Plugins for how TensorFlow runs: training loops, XLA, steps per execution, threads."""
