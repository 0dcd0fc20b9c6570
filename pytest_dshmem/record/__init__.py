"""What survives a crash: the run directory, its journals, claims and fingerprint."""
