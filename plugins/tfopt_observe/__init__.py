"""Plugins that watch a training and change nothing: profilers and loggers."""
