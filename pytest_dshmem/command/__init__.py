"""The `dshmem` command: what can be done with data and with runs outside of a pytest session."""
