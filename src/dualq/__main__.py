"""`python -m dualq` is the command line."""

from dualq.cli import main

main()
