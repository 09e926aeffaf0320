"""Feeds: the sources of a running program, which report the files to ingest.

* `folders` has `FolderFeed`: files of a folder, a pattern or one file, as they appear.
* `once` has `OnceFeed` for sources that do not change and `RegisteredFeed` for registered data.
* `push` has `PushFeed`: rows that Python inserts and deletes.
* `sockets` has `SocketFeed`, lines that a peer sends; `frames` has `FrameFeed`, a streaming frame.
* `spooled` has what a feed is and where rows wait; `archive` keeps copies of ingested input.

Start with `spooled`, then `folders`.
"""

from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.folders import FolderFeed
from incmrql.runtime.feeds.frames import FrameFeed
from incmrql.runtime.feeds.once import OnceFeed, RegisteredFeed
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.feeds.sockets import SocketFeed, SocketStatus
from incmrql.runtime.feeds.spooled import Consumed, Feed, News

__all__ = [
    "Archive",
    "Consumed",
    "Feed",
    "FolderFeed",
    "FrameFeed",
    "News",
    "OnceFeed",
    "PushFeed",
    "RegisteredFeed",
    "SocketFeed",
    "SocketStatus",
]
