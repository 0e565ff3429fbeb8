"""The rows of spool: an entry points at a blob; a blob is immutable once it is live, and its bytes are chunk rows.

What a blob is, is told by its two instants:

=============== ============== ==============================================================
``lease_until`` ``dropped_at`` the blob is
=============== ============== ==============================================================
set             NULL           *writing*; once the lease is over, the purge may take it
NULL            NULL           *live*: the one version that an entry names
NULL            set            *dropped*: no entry names it, its readers have a grace
set             set            *condemned*: the purge is taking it, nothing brings it back
=============== ============== ==============================================================
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from .fields import DigestField, ExactTextField, InstantField


class SpoolBlob(models.Model):
    """Hold one written version. Every chunk but the last has ``chunk_size`` bytes."""

    version = models.CharField(_("version"), max_length=32)
    namespace = ExactTextField(_("namespace"))
    call_id = ExactTextField(_("call id"))
    byte_length = models.BigIntegerField(_("bytes"), default=0)
    line_count = models.BigIntegerField(_("lines"), default=0)
    chunk_count = models.IntegerField(_("chunks"), default=0)
    chunk_size = models.IntegerField(_("bytes of a chunk"))
    lease_until = InstantField(_("upload lease until"), null=True)
    dropped_at = InstantField(_("dropped at"), null=True)
    created_at = InstantField(_("created at"))

    class Meta:
        db_table = "statestore_spool_blob"
        verbose_name = _("spooled version")
        verbose_name_plural = _("spooled versions")
        # No `unique=True` on the field: Django would add a second index for LIKE.
        constraints = [models.UniqueConstraint(fields=["version"], name="statestore_blob_version")]
        indexes = [
            models.Index(fields=["lease_until"], name="statestore_blob_lease", condition=Q(lease_until__isnull=False)),
            models.Index(fields=["dropped_at"], name="statestore_blob_dropped", condition=Q(dropped_at__isnull=False)),
            models.Index(
                fields=["namespace"],
                name="statestore_blob_live",
                condition=Q(lease_until__isnull=True, dropped_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return str(self.call_id)


class SpoolEntry(models.Model):
    """Name the version that a call id shows now."""

    digest = DigestField(unique=True)
    namespace = ExactTextField(_("namespace"))
    key = ExactTextField(_("call id"))
    blob = models.OneToOneField(
        SpoolBlob, models.DO_NOTHING, related_name="entry", db_constraint=False, verbose_name=_("version")
    )

    class Meta:
        db_table = "statestore_spool_entry"
        verbose_name = _("spool entry")
        verbose_name_plural = _("spool entries")
        indexes = [models.Index(fields=["namespace", "key"], name="statestore_spool_names")]

    def __str__(self) -> str:
        return str(self.key)


class SpoolChunk(models.Model):
    """Hold up to 64 KB of a blob, and how many line ends lie before them: the sparse line index."""

    blob = models.ForeignKey(SpoolBlob, models.DO_NOTHING, related_name="chunks", db_index=False, db_constraint=False)
    number = models.IntegerField()
    lines_before = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        db_table = "statestore_spool_chunk"
        constraints = [models.UniqueConstraint(fields=["blob", "number"], name="statestore_chunk_number")]
        indexes = [models.Index(fields=["blob", "lines_before", "number"], name="statestore_chunk_lines")]

    def __str__(self) -> str:
        return f"{self.blob_id}/{self.number}"
