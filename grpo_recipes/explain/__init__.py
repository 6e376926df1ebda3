"""Renders pages about rules and keys from the code."""
