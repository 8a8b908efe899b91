"""Search for the fastest stack: candidates, trials, their order, and the proof of the winner.

A trial is a short measurement of two stacks that differ by one plugin; its runs are those of
`trials`, its proof that of `measurement`. A trial of settings is a training with drawn values of
settings and options; what they gain is proved by pairs of their own. Several machines share these
trials by Optuna's storage; their stacks they search alone.
"""
