"""What the race runs: the same trainings, written for each system."""
