"""What starts the processes of a run: a module for each name in contract/host/engines.py, which nobody else knows."""
