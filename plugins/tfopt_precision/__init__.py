"""Plugins for numeric precision: mixed precision."""
