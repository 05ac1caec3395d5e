"""What `lexbench compare` works out: what differs between systems, whether their scores do, on which queries, and why."""
