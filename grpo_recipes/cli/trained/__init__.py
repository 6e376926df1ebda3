"""Shared by commands that use a run's trained model."""
