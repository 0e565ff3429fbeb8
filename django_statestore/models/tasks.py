"""The rows of durable tasks.

Rows belong together by id; the database holds no foreign keys between them: a check with every save would cost a
look-up, and the mailbox of a task that the purge takes must not fail a caller's COMMIT.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from .fields import DigestField, ExactTextField, InstantField
from .spool import SpoolBlob


class Task(models.Model):
    """Hold where a task stands: the one hot, narrow row that every claim, commit and renewal decides on."""

    class Status(models.TextChoices):
        READY = "ready", _("ready")
        RUNNING = "running", _("running")
        COMPLETED = "completed", _("completed")
        CANCELLED = "cancelled", _("cancelled")

    digest = DigestField(unique=True)
    namespace = ExactTextField(_("namespace"))
    key = ExactTextField(_("task id"))

    # what it is
    driven = models.BooleanField(_("driven by the engine"), default=True)
    definition = models.TextField(_("definition"))
    revision = models.TextField(_("revision"))
    fingerprint = models.TextField(_("fingerprint of the steps"), default="")
    mismatch_since = InstantField(_("without matching code since"), null=True)
    start_digest = DigestField(_("digest of the initial state"), null=True)
    forked_from = models.BigIntegerField(_("forked from"), null=True)

    # where it stands
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.READY)
    step_index = models.IntegerField(_("next step"), default=0)
    turn = models.IntegerField(_("turn"), default=1)
    attempts = models.IntegerField(_("attempts"), default=0)
    max_attempts = models.IntegerField(_("attempts allowed"))
    deadline = InstantField(_("deadline"), null=True)
    max_calls = models.IntegerField(_("model calls allowed"), null=True)
    reserved_calls = models.IntegerField(_("model calls reserved"), default=0)
    max_calls_per_attempt = models.IntegerField(_("model calls allowed an attempt"), null=True)
    reason = models.TextField(_("reason"), default="")
    save_seq = models.BigIntegerField(_("saves"), default=0)
    journal_seq = models.BigIntegerField(_("journal lines"), default=0)
    entered_at = InstantField(_("step entered at"), null=True)

    # whose it is, and when it is due
    fence = models.BigIntegerField(_("fence"), default=0)
    claims = models.IntegerField(_("claims without an outcome"), default=0)
    worker = models.TextField(_("worker"), default="")
    wake_at = InstantField(_("due at"), null=True)
    resume_at = InstantField(_("not before"), null=True)
    notified_until = InstantField(_("message sent, trusted until"), null=True)

    # what it waits for, and what was asked of it
    waiting_for = models.TextField(_("waiting for"), default="")
    wait_spec = models.TextField(_("form and permission of the wait"), default="")
    signal_seq = models.BigIntegerField(_("requests received"), default=0)
    signals_seen = models.BigIntegerField(_("requests seen"), default=0)
    received = models.BigIntegerField(_("signal received"), null=True)
    cancel_requested = models.TextField(_("why cancel was asked for"), null=True)  # noqa: DJ001  (NULL: it was not)

    # for people
    progress = models.FloatField(_("progress"), null=True)
    progress_text = models.TextField(_("progress text"), default="")
    last_error = models.TextField(_("last error"), default="")
    created_at = InstantField(_("started at"))
    finished_at = InstantField(_("finished at"), null=True)
    retention = models.BigIntegerField(_("kept after its end, milliseconds"), null=True)

    class Meta:
        db_table = "statestore_task"
        verbose_name = _("durable task")
        verbose_name_plural = _("durable tasks")
        indexes = [
            models.Index(fields=["namespace", "key"], name="statestore_task_names"),
            models.Index(fields=["wake_at"], name="statestore_task_due", condition=Q(wake_at__isnull=False)),
            models.Index(fields=["finished_at"], name="statestore_task_end", condition=Q(finished_at__isnull=False)),
            models.Index(
                fields=["fingerprint"],
                name="statestore_task_diverged",
                condition=Q(reason="diverged", wake_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return str(self.key)


class Snapshot(models.Model):
    """Hold the state after one save. A task keeps a ring of the last 20, by ``save_seq`` modulo 20."""

    task = models.ForeignKey(Task, models.DO_NOTHING, related_name="snapshots", db_constraint=False, db_index=False)
    slot = models.SmallIntegerField()
    save_seq = models.BigIntegerField(_("save"))
    step_index = models.IntegerField(_("next step"))
    step = models.TextField(_("step"))
    turn = models.IntegerField(_("turn"))
    attempts = models.IntegerField(_("attempts so far"))
    outcome = models.CharField(_("outcome"), max_length=20)
    state = models.TextField(_("state"))
    size = models.BigIntegerField(_("bytes"))
    worker = models.TextField(_("worker"))
    milliseconds = models.BigIntegerField(_("milliseconds"), null=True)
    saved_at = InstantField(_("saved at"))

    class Meta:
        db_table = "statestore_snapshot"
        verbose_name = _("saved step")
        verbose_name_plural = _("saved steps")
        constraints = [models.UniqueConstraint(fields=["task", "slot"], name="statestore_snapshot_slot")]

    def __str__(self) -> str:
        return f"{self.save_seq} {self.step} {self.outcome}"


class JournalItem(models.Model):
    """Hold one line of a task's append-only journal: an item of its state, a finished call, or a repair."""

    task = models.ForeignKey(Task, models.DO_NOTHING, related_name="journal", db_constraint=False, db_index=False)
    number = models.BigIntegerField(_("number"))
    kind = models.CharField(_("kind"), max_length=10)
    name = models.TextField(_("name"), default="")
    occurrence = models.IntegerField(_("occurrence"), default=0)
    arguments = DigestField(_("digest of the arguments"), null=True)
    save_seq = models.BigIntegerField(_("save"))
    value = models.TextField(_("value"))
    sender = models.TextField(_("by"), default="")
    created_at = InstantField(_("at"))

    class Meta:
        db_table = "statestore_journal"
        verbose_name = _("journal line")
        verbose_name_plural = _("journal lines")
        constraints = [models.UniqueConstraint(fields=["task", "number"], name="statestore_journal_number")]
        indexes = [
            models.Index(
                fields=["task", "save_seq", "number"], name="statestore_journal_calls", condition=Q(kind="call")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.kind} {self.name}"


class MailboxItem(models.Model):
    """Hold a request to a task: a signal, a cancel, a grant. ``seq`` is dealt when it is applied to the task's row."""

    task = models.ForeignKey(Task, models.DO_NOTHING, related_name="mailbox", db_constraint=False, db_index=False)
    kind = models.CharField(_("kind"), max_length=10)
    name = models.TextField(_("name"), default="")
    key = models.TextField(_("key"), null=True)  # noqa: DJ001  (NULL: not deduplicated)
    payload = models.TextField(_("payload"), default="null")
    sender = models.TextField(_("sender"), default="")
    sent_at = InstantField(_("sent at"))
    seq = models.BigIntegerField(_("applied as"), null=True)
    used_at = InstantField(_("used at"), null=True)
    dropped = models.BooleanField(_("came too late"), default=False)

    class Meta:
        db_table = "statestore_mailbox"
        verbose_name = _("request")
        verbose_name_plural = _("requests")
        constraints = [models.UniqueConstraint(fields=["task", "key"], name="statestore_mailbox_key")]
        indexes = [
            models.Index(
                fields=["task", "name", "seq"],
                name="statestore_mailbox_unused",
                condition=Q(kind="signal", seq__isnull=False, used_at__isnull=True),
            ),
            # No boolean stands in the condition: Django's versions write one differently, and SQLite compares the text.
            models.Index(fields=["dropped", "sent_at"], name="statestore_mailbox_new", condition=Q(seq__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class SpoolUse(models.Model):
    """Keep a spooled version while a task refers to it."""

    task = models.ForeignKey(Task, models.DO_NOTHING, related_name="spool_uses", db_constraint=False, db_index=False)
    blob = models.ForeignKey(SpoolBlob, models.DO_NOTHING, related_name="uses", db_constraint=False)
    name = models.TextField(_("name"), default="")

    class Meta:
        db_table = "statestore_spool_use"
        verbose_name = _("spool use")
        verbose_name_plural = _("spool uses")
        constraints = [models.UniqueConstraint(fields=["task", "blob"], name="statestore_use_once")]

    def __str__(self) -> str:
        return f"{self.task_id} {self.blob_id}"


class Job(models.Model):
    """Remember when the sweep or purge of a store last started and last succeeded."""

    store = models.TextField(_("store"))
    kind = models.CharField(_("kind"), max_length=10)
    started_at = InstantField(_("last start"))
    succeeded_at = InstantField(_("last success"), null=True)

    class Meta:
        db_table = "statestore_job"
        verbose_name = _("maintenance")
        verbose_name_plural = _("maintenance")
        constraints = [models.UniqueConstraint(fields=["store", "kind"], name="statestore_job_kind")]

    def __str__(self) -> str:
        return f"{self.kind} {self.store}"
