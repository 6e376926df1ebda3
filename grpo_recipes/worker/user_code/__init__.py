"""Runs the user's code, reward functions and a model's own code, as planned, and explains its errors."""
