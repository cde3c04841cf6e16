"""Policies: what turns an observation into an action, with everything that belongs to it inside."""
