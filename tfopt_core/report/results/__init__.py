"""What was measured, as text and JSON: the summary, the verdict, comparisons, the list of runs."""
