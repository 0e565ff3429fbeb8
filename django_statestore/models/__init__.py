"""The tables. Their rows are written by the database backend alone; admin and services read them."""

from .entries import DedupEntry, KVEntry, LockEntry
from .spool import SpoolBlob, SpoolChunk, SpoolEntry
from .tasks import Job, JournalItem, MailboxItem, Snapshot, SpoolUse, Task

__all__ = [
    "DedupEntry",
    "Job",
    "JournalItem",
    "KVEntry",
    "LockEntry",
    "MailboxItem",
    "Snapshot",
    "SpoolBlob",
    "SpoolChunk",
    "SpoolEntry",
    "SpoolUse",
    "Task",
]
