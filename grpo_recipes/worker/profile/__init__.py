"""The policy answers each training row several times before it is trained, for `grpo-run profile`."""
