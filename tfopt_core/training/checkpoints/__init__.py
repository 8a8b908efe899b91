"""Write training checkpoints and resume from them."""
