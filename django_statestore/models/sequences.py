"""The rows of list and queue: a head that deals the order, and the items in it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from .fields import DigestField, ExactTextField, InstantField


class _Head(models.Model):
    digest = DigestField(unique=True)
    namespace = ExactTextField(_("namespace"))
    key = ExactTextField(_("key"))
    seq = models.BigIntegerField(_("items dealt"), default=0)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.key)


class ListHead(_Head):
    """Hold what is true of a whole list. Its items are those above ``floor``: what lies below is on its way out."""

    floor = models.BigIntegerField(_("items dropped"), default=0)
    expires_at = InstantField(_("expires at"), null=True)

    class Meta:
        db_table = "statestore_list"
        verbose_name = _("list")
        verbose_name_plural = _("lists")
        indexes = [
            models.Index(fields=["namespace", "key"], name="statestore_list_names"),
            models.Index(fields=["expires_at"], name="statestore_list_expiry", condition=Q(expires_at__isnull=False)),
        ]


class ListItem(models.Model):
    list = models.ForeignKey(ListHead, models.DO_NOTHING, related_name="items", db_constraint=False, db_index=False)
    seq = models.BigIntegerField()
    value = models.TextField(_("value"))

    class Meta:
        db_table = "statestore_list_item"
        constraints = [models.UniqueConstraint(fields=["list", "seq"], name="statestore_list_item_seq")]

    def __str__(self) -> str:
        return f"{self.list_id}/{self.seq}"


class QueueHead(_Head):
    """Hold the live count of a queue, so that no operation has to count."""

    stored = models.BigIntegerField(_("items"), default=0)

    class Meta:
        db_table = "statestore_queue"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        indexes = [models.Index(fields=["namespace", "key"], name="statestore_queue_names")]


class QueueItem(models.Model):
    """Hold one item. ``token`` and ``hidden_until``: it is taken; ``hidden_until`` alone: released with a delay."""

    queue = models.ForeignKey(QueueHead, models.DO_NOTHING, related_name="items", db_constraint=False, db_index=False)
    seq = models.BigIntegerField()
    value = models.TextField(_("value"))
    token = DigestField(_("digest of the token"), null=True)
    hidden_until = InstantField(_("hidden until"), null=True)
    deliveries = models.IntegerField(_("deliveries"), default=0)
    expires_at = InstantField(_("expires at"), null=True)
    created_at = InstantField(_("enqueued at"))

    class Meta:
        db_table = "statestore_queue_item"
        constraints = [
            models.UniqueConstraint(fields=["queue", "seq"], name="statestore_queue_item_seq"),
            models.UniqueConstraint(fields=["token"], name="statestore_queue_item_token"),
        ]
        indexes = [
            models.Index(
                fields=["queue", "expires_at"],
                name="statestore_queue_item_expiry",
                condition=Q(expires_at__isnull=False),
            ),
            models.Index(fields=["expires_at"], name="statestore_queue_expired", condition=Q(expires_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.queue_id}/{self.seq}"
