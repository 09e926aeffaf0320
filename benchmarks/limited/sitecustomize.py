"""Python imports this at its start where this folder is on its path: it limits its own memory.

The limit is one of data: what a process allocates counts, files that it maps do not.
"""

import os
import resource

if given := os.environ.get("INCMRQL_DATA_LIMIT"):
    resource.setrlimit(resource.RLIMIT_DATA, (int(given), int(given)))
