"""The use cases behind the commands and the Python API. Whoever calls them passes in what shows
their progress; nothing is printed here."""
