"""The commands: parse, call, print, exit code."""
