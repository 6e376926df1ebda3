"""Formats findings, plans, stacks and runs as text, JSON and HTML."""
