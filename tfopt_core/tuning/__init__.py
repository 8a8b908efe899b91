"""Search for the fastest stack: candidates, trials, their order, and the proof of the winner.

A trial is a short measurement of two stacks that differ by one plugin; its runs are those of
`trials`, its proof that of `measurement`. How settings and workload options are searched, and how
several machines share a search, will stand here too.
"""
