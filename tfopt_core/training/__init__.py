"""One training in this process: the workload, the hooks up to `compile`, the fit and its report."""
