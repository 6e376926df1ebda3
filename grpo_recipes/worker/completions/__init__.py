"""Completions: generated, ended, judged, and measured on held-out rows."""
