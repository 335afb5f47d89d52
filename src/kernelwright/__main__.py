"""`python -m kernelwright` is the command line."""

import sys

try:
    from kernelwright.cli import main
except KeyboardInterrupt:  # it takes a few tenths of a second to import
    sys.exit(130)

main()
