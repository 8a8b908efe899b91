"""Worker processes: their tasks, how they are started, watched and ended.

A task names the function that its process calls; the functions are in folders that import this one.
"""
