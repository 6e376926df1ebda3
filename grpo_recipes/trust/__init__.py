"""Checks what a recipe contains: code allowed by digest, harmless environment variables, no secrets."""
