"""What is wrong, in one shape: as a value, as an exception, as text."""
