"""Rows become prompts and columns."""
