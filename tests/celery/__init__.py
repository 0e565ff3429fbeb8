"""The path through Celery, with real workers, a real beat and a real broker: files in a folder."""
