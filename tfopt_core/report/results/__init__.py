"""Render results as text and JSON: the summary, the verdict, comparisons, the list of runs."""
