"""Learning algorithms: one file each, which reads as the algorithm does in its paper."""
