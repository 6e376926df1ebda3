"""Reads what an installed package accepts from its source text; nothing is imported."""
