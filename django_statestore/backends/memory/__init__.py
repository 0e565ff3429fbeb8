"""The memory backend: one process, its threads and its event loops; for tests and notebooks."""

from .backend import MemoryBackend

__all__ = ["MemoryBackend"]
