"""The sweep command: plans and writes runs, trains and compares them."""
