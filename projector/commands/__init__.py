"""What the command line does, a module for each theme. Thin: the work is done elsewhere."""
