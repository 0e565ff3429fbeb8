"""The admin of the app: look, and answer; never edit."""

from .tasks import TaskAdmin

__all__ = ["TaskAdmin"]
