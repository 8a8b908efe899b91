"""Plugins for input pipelines: cache, prefetch, parallel map."""
