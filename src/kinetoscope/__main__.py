"""``python -m kinetoscope``."""

import sys

from kinetoscope.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
