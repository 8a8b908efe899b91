"""What is shown while a measurement is under way: the live display, or plain lines."""
