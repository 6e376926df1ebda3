"""Code that is the user's: reward functions and a model's own, run as it was planned, its mistakes told."""
