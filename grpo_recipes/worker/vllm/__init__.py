"""Configures vLLM for the trainer: runs the engine in this process, and compares samples and tokens with the policy."""
