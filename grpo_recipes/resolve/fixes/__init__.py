"""Fixes of a recipe's findings, as one new text of its file."""
