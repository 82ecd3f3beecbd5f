"""`python -m adaam`."""

import sys

from adaam.cli import main

if __name__ == "__main__":
    sys.exit(main())
