"""The exit codes of grpo-run and of a run, however it was started."""

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_DIFFERENT = 1
EXIT_NOT_STARTED = 2
EXIT_STOPPED = 3
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 75
