"""Builds the plan's trainer and model, and inspects them."""
