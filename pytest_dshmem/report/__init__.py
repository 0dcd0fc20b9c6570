"""What a finished run says: ledger, tables, comparison, diagnosis, HTML. Reads records, runs nothing."""
