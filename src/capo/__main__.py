"""`python -m capo` is `capo`."""

import sys

from capo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
