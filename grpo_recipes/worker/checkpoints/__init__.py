"""Checkpoints and trained models, with the model card."""
