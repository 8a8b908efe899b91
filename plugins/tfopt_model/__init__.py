"""Plugins that change the model: L2 penalties."""
