"""`python -m edgekv`, the same as `edgekv`."""

from edgekv.cli.main import main

main()
