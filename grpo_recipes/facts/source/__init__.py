"""Reads what an installed package accepts from its source text, without importing it."""
