"""Derive verdict, attribution and advice from the pairs of a measurement, and when to stop."""
