"""Plugins for distribution strategies: one device, mirrored."""
