"""Scripts as they are: run as the program, with the training of their own intercepted."""
