"""The commands: each parses its options, calls a use case, prints, and returns an exit code."""
