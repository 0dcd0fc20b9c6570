"""Data sets: files in, three sealed views out. Knows no benchmark run, no harness and no pytest."""
