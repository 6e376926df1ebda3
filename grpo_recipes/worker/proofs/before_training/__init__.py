"""Proofs that are made when the trainer is built and before its first step: each is a file with its id."""
