"""One training in this process: the workload, the hooks up to `compile`, and the fit."""
