"""Proofs after the trainer is built and before its first step."""
