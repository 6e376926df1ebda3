"""Findings, plans and stacks as text and JSON."""
