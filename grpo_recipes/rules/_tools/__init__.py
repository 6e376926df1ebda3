"""What several rules ask of tools; no rules themselves."""
