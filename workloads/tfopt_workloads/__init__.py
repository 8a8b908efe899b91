"""The workloads that ship with tfopt: real data, there offline.

A module a workload, each with a `build` function that a recipe names by its entry point and
calls with `[workload.options]`. Importing them imports neither TensorFlow nor NumPy.
`catalog.data_sources()` says which data this machine has.
"""
