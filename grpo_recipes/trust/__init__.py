"""Checks what a recipe brings along: code allowed by digest, harmless environment variables, no secrets."""
