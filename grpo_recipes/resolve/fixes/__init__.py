"""Applies the fixes of findings to a recipe's text."""
