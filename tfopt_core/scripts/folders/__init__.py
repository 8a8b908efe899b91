"""The folder of a script, kept as it is: mounted or copied, and what a run wrote into it."""
