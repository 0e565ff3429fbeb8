"""The tables. Their rows are written by the database backend alone; admin and services read them."""

from .entries import DedupEntry, HandoffEntry, KVEntry, LockEntry
from .sequences import ListHead, ListItem, QueueHead, QueueItem
from .spool import SpoolBlob, SpoolChunk, SpoolEntry
from .tasks import Job, JournalItem, MailboxItem, Snapshot, SpoolUse, Task

__all__ = [
    "DedupEntry",
    "HandoffEntry",
    "Job",
    "JournalItem",
    "KVEntry",
    "ListHead",
    "ListItem",
    "LockEntry",
    "MailboxItem",
    "QueueHead",
    "QueueItem",
    "Snapshot",
    "SpoolBlob",
    "SpoolChunk",
    "SpoolEntry",
    "SpoolUse",
    "Task",
]
