"""`python -m dualq` is the command line."""

from dualq.app.cli import main

main()
