"""From a resolved stack to the plain code that trains the same."""
