"""What several checks of a preflight ask."""
