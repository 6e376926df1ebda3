"""What is watched while the run trains: one file for each guard, its docstring is its page."""
