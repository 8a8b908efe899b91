"""Start, supervise and end worker processes, and define their tasks.

A task names the function that its process calls; the functions are in folders that import this one.
"""
