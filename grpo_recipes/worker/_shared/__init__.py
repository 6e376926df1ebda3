"""What several rooms of the worker ask."""
