"""Deterministic stand-ins for the model and the judge, served on loopback. Their figures are not results."""
