"""The display during a measurement: live on a terminal, plain lines elsewhere."""
