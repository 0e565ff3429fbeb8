"""What the demo's task leaves behind."""

from django.db import models


class Report(models.Model):
    """Hold the report of one task; a second one for the same task would be refused."""

    task_id = models.CharField(max_length=100, unique=True)
    source = models.TextField()
    sections = models.PositiveIntegerField()
    words = models.PositiveIntegerField()
    body = models.TextField()
    recorded_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.task_id


class Booking(models.Model):
    """Count what was booked for one task: its report, once."""

    task_id = models.CharField(max_length=100, unique=True)
    reports = models.PositiveIntegerField(default=0)
    words = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.task_id
