"""What a run shows while it goes on, chosen by options, and runs that others started."""
