"""The rows of kv, lock and dedup: the digest of (facet, namespace, key) is the key, the readable names stand beside."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import DigestField, ExactTextField, InstantField


class _Entry(models.Model):
    id = DigestField(primary_key=True)
    namespace = ExactTextField(_("namespace"))
    key = ExactTextField(_("key"))

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.key)


class KVEntry(_Entry):
    value = models.TextField(_("value"))
    expires_at = InstantField(_("expires at"), null=True)

    class Meta:
        db_table = "statestore_kv"
        verbose_name = _("value")
        verbose_name_plural = _("values")
        indexes = [
            models.Index(fields=["namespace", "key"], name="statestore_kv_names"),
            models.Index(
                fields=["expires_at"], name="statestore_kv_expiry", condition=models.Q(expires_at__isnull=False)
            ),
        ]


class LockEntry(_Entry):
    token = DigestField(_("digest of the token"))
    fence = models.BigIntegerField(_("fence"))
    expires_at = InstantField(_("expires at"))

    class Meta:
        db_table = "statestore_lock"
        verbose_name = _("lock")
        verbose_name_plural = _("locks")
        indexes = [
            models.Index(fields=["namespace", "key"], name="statestore_lock_names"),
            models.Index(fields=["expires_at"], name="statestore_lock_expiry"),
        ]


class DedupEntry(_Entry):
    token = DigestField(_("digest of the token"), null=True)
    expires_at = InstantField(_("expires at"))
    window_ends_at = InstantField(_("window ends at"), null=True)

    class Meta:
        db_table = "statestore_dedup"
        verbose_name = _("dedup window")
        verbose_name_plural = _("dedup windows")
        indexes = [
            models.Index(fields=["namespace", "key"], name="statestore_dedup_names"),
            models.Index(fields=["expires_at"], name="statestore_dedup_expiry"),
        ]


class HandoffEntry(models.Model):
    """Hold one state. Its id is a capability: only its digest is stored, and no name stands beside it."""

    id = DigestField(primary_key=True)
    namespace = ExactTextField(_("namespace"))
    value = models.TextField(_("state"))
    expires_at = InstantField(_("expires at"))

    class Meta:
        db_table = "statestore_handoff"
        verbose_name = _("handoff")
        verbose_name_plural = _("handoffs")
        indexes = [
            models.Index(fields=["namespace", "expires_at"], name="statestore_handoff_live"),
            models.Index(fields=["expires_at"], name="statestore_handoff_expiry"),
        ]

    def __str__(self) -> str:
        return str(_("handoff"))
