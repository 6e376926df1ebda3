"""Findings: one shape for every problem, as a value, an exception or text."""
