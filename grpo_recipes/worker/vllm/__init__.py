"""Configures vLLM for the trainer: the engine in this process, what it samples, and whether its tokens match."""
