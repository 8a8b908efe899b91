"""Private copies of a script's folder, so that runs leave the folder itself as it was."""
