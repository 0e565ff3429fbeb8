"""The admin of the app: look, never edit."""

from .tasks import TaskAdmin

__all__ = ["TaskAdmin"]
