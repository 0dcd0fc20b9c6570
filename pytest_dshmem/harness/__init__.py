"""The system under test: isolated homes, runtimes, the guard and memory systems. Knows no data set."""
