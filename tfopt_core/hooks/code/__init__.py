"""What plugins do to a training, as the plain Python code that `tfopt export` writes."""
