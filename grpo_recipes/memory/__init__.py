"""Estimates the GPU memory of a training from config.json and the settings alone."""
