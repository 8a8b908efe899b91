"""Plugins for input pipelines, from the source to the device."""
