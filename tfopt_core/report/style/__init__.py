"""What every page is made of: the console, layout, units and words."""
