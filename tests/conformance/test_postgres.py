"""The conformance kit on PostgreSQL."""

from django_statestore.testing import conformance

from .databases import on_database

globals().update(conformance.tests(on_database("postgres", __name__)))
