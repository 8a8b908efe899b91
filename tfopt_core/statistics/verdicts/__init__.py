"""From the pairs of a measurement to what may be said of them, and when it is enough."""
