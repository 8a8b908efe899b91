"""A model and its optimizers: layers, traced graphs, precision."""
