"""`python -m mt` is the command `mt`."""

from cli.main import main

main()
