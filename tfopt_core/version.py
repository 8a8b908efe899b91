"""The version of tfopt, which stands here alone."""

__version__ = "0.1.0"
