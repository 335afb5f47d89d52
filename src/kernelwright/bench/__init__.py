"""Public benchmarks, run on the user's own clone of them: tasks in, rows and a page out."""
