"""Hides secrets in everything that is printed or written, within limits of time and size."""
