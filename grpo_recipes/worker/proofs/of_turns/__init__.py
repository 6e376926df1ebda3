"""Proofs of the first step of a training in which tools are called."""
