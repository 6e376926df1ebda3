"""The complete, checked settings become a plan."""
