"""What the functions of a file say of themselves to a model: names, type hints and docstrings."""
