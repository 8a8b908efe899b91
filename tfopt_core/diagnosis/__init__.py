"""Where the time of a step goes, what bounds it, and the recipe that this proposes."""
