"""The update of GRPO followed on fake tensors: what it would allocate, without allocating it."""
