"""The conformance kit on SQLite."""

from django_statestore.testing import conformance

from .databases import on_database

globals().update(conformance.tests(on_database("default", __name__)))
