"""The command line: one module per sub-command, found through ``cli/main.py``'s table."""
