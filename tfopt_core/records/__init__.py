"""Frozen results, readings and messages that folders of core exchange. No I/O, no decisions."""
