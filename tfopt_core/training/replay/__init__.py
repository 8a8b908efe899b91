"""Short trainings whose data, losses and weights the equivalence certificate compares."""
