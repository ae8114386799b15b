"""A soak of the Python interface: random jobs, disturbed or not, every result checked. `python tests/soak --help`."""
