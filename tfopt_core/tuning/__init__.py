"""Search for the fastest stack: candidates, trials, their order, and the proof of the winner.

A trial compares two stacks that differ by one plugin, or by values of settings and options, by
groups of short runs, those of `measurement`; its proof is a measurement. Several machines share the
trials of settings by Optuna's storage; their stacks they search alone.
"""
