"""Worker processes: their tasks and messages, how they are started, watched and ended. What a task
does is not known here: it names a function of a higher room."""
