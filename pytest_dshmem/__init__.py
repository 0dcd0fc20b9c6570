"""Memory benchmarks for DeepSeek Harness as pytest suites."""

__version__ = "0.1.0"
