"""Generates completions, scores them, and evaluates on held-out rows."""
