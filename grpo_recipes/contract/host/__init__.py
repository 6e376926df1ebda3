"""What a process has around it: other processes, its streams, its terminal, its lists of places, and what starts it."""
