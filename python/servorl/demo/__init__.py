"""The first thing to run: one policy from simulation to an emulated chip, with a report."""
