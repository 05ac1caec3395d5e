"""What scores pairs of query and document by reading both: one file each."""
