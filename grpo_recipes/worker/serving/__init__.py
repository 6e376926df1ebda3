"""Starts, watches, restarts and stops a run's vLLM server around the training."""
