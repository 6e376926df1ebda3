"""What commands need that are about what a run trained."""
