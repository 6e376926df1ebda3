"""The display of a running run, chosen by options, and of runs that others started."""
