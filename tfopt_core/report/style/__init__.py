"""Building blocks of every page: the console, layout, units and vocabulary."""
