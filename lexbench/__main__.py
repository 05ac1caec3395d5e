"""`python -m lexbench` is the command line."""

from lexbench.cli import main

main()
