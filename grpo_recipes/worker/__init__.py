"""The training process. It reads plan.json, has no defaults, and is imported by nothing else."""
