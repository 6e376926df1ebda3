"""Reads the user's data, model and rewards for validate, without running any of it."""
