"""The proofs of the worker's first step: one statement per file, which compares the trainer with the plan."""
