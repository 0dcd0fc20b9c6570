"""One self-contained HTML file that says what a run says."""
