"""How a step is left from within, past any ``except Exception`` of its own: what ``ctx.check()`` raises."""

from __future__ import annotations


class StepLeft(BaseException):
    """Be the base: no step should catch it, but for a moment to clean up."""


class Cancelled(StepLeft):
    """Cancel was asked for. The task ends with the state that it had before this step."""


class DeadlinePassed(StepLeft):
    """The task's deadline is over. The task ends with the state that it had before this step."""


class LeaseOver(StepLeft):
    """Another worker has taken over, or may have: nothing that this run returns will be accepted."""
