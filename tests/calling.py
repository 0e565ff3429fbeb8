"""One test body for both forms of an operation."""

from django_statestore.testing.conformance.calling import Call

__all__ = ["Call"]
