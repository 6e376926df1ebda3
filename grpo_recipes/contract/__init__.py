"""Code shared by the planner and the run folder: standard library only, copied whole into each run."""
