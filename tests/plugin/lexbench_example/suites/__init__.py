"""The folder that holds suites and contracts."""
