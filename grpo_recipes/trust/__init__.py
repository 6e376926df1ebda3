"""What a recipe may bring along: code allowed by digest, harmless environment variables, no secrets."""
