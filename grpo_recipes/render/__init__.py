"""The files of a run folder as text, each a pure function of the plan."""
