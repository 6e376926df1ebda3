"""Reads what the functions of a file tell a model: names, type hints and docstrings."""
