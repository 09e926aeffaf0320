"""Feeds: the sources of a running program, which say what files there are to take in.

FolderFeed      files of a folder, a pattern or one file, as they appear
OnceFeed        files of a source that does not change, in the first batch
RegisteredFeed  data that were registered, in the first batch
PushFeed        rows that Python inserts and deletes
SocketFeed      lines that a peer sends
FrameFeed       batches of a streaming data frame
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
