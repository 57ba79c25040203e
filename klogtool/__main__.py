"""`python -m klogtool` is the same as `klogtool`."""

from klogtool.cli.start import main

main()
