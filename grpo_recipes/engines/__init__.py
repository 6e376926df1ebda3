"""The engines that start the processes of a run: one module for each name in contract/host/engines.py."""
