"""Answers each training row several times before training, for `grpo-run profile`."""
