"""What starts the processes of a run: one module an engine, chosen by `plan.world.engine` and known by name nowhere else."""
