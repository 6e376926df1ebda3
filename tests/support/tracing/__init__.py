"""Traces the update of GRPO on fake tensors, to see what it would allocate."""
