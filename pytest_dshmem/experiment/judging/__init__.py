"""Hypothesis against reference, by a judge that knows nothing of the harness.

`protocol` and `official` say how to judge, `judge` does it, `export` writes what the official scripts read.
"""
