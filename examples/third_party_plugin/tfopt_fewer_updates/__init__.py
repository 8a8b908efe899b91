"""A plugin for tfopt that accumulates gradients over several batches."""
