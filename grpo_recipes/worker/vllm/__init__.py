"""vLLM beside the trainer: the engine in this process, what it samples, and whether its tokens mean the same."""
