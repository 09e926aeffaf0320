"""Feeds: the sources of a running program.  Each poll reports files that are ready to be ingested.

* `spooled` has the protocol `Feed`, and the directories in which arrivals wait for a batch.
* `folders` has `FolderFeed`: files of a directory, a pattern or one file, as they appear.
* `readers` has `ReaderFeed`: files as a reader of Spark lists and reads them.
* `kept_values` gives deletions the values that were computed when their rows were inserted.
* `once` has `OnceFeed` for sources that do not change and `RegisteredFeed` for registered data.
* `push` (rows from Python), `sockets` (lines from a peer) and `frames` (a streaming DataFrame)
  write what arrives to spool files; `set_aside` removes rows that no batch can ingest.
* `archive` keeps copies of ingested input; `removal` forgets or retracts ingested files.

Start with `spooled`, then `folders`.
"""

from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.folders import FolderFeed
from incmrql.runtime.feeds.frames import FrameFeed
from incmrql.runtime.feeds.once import OnceFeed, RegisteredFeed
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.feeds.readers import ReaderFeed
from incmrql.runtime.feeds.sockets import SocketFeed, SocketStatus
from incmrql.runtime.feeds.spooled import Arrivals, Feed, IngestedByPath

__all__ = [
    "Archive",
    "Arrivals",
    "Feed",
    "FolderFeed",
    "FrameFeed",
    "IngestedByPath",
    "OnceFeed",
    "PushFeed",
    "ReaderFeed",
    "RegisteredFeed",
    "SocketFeed",
    "SocketStatus",
]
