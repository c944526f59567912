"""`python -m jaxcontact` is the command `jaxcontact`."""

import sys

from jaxcontact.cli import main

if __name__ == "__main__":
    sys.exit(main())
