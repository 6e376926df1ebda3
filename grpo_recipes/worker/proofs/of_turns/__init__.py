"""Proofs of the first step of a training with tools."""
