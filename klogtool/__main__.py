"""`python -m klogtool` is the same as `klogtool`."""

from klogtool.cli.main import main

main()
