"""The surroundings of a process: other processes, streams, terminal, search paths, engines."""
