"""What planner and run folder share, with the standard library alone; the folder is copied whole into each run."""
