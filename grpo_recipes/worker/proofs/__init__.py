"""What the worker proves in its first step: one statement per file, which compares the trainer with the plan."""
