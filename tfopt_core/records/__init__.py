"""What rooms hand to each other: frozen results, readings and messages. No I/O, no decisions."""
