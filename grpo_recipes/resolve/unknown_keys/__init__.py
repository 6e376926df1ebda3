"""Keys that are not of the format: where they belong, whose they are, what was meant."""
