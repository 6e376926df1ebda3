"""A sweep as a command: its runs planned and written, trained, and compared."""
