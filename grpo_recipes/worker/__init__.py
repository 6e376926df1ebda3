"""The training process: it reads plan.json, decides nothing, and is imported by nobody else."""
