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
    """Hold the live count of a queue, so that no operation has to count.

    ``stored`` counts the items that were alive at ``counted_at``: neither how many have expired since, nor whether
    those that had expired before are still there, is in it. ``peak``: see ``QueueItem``; it is that of the next item.
    """

    stored = models.BigIntegerField(_("items"), default=0)
    counted_at = InstantField(_("counted at"))
    peak = InstantField(null=True)

    class Meta:
        db_table = "statestore_queue"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        indexes = [models.Index(fields=["namespace", "key"], name="statestore_queue_names")]


class QueueItem(models.Model):
    """Hold one item. ``token`` and ``hidden_until``: it is taken; ``hidden_until`` alone: released with a delay.

    One that has ``hidden_until`` is not ``free``, also when that is over. ``peak`` is at least the last expiry of the
    items that were enqueued up to this one in its block of places; null: one of them never expires.
    """

    queue = models.ForeignKey(QueueHead, models.DO_NOTHING, related_name="items", db_constraint=False, db_index=False)
    seq = models.BigIntegerField()
    value = models.TextField(_("value"))
    free = models.BooleanField(_("free"), default=True)
    token = DigestField(_("digest of the token"), null=True)
    hidden_until = InstantField(_("hidden until"), null=True)
    deliveries = models.IntegerField(_("deliveries"), default=0)
    expires_at = InstantField(_("expires at"), null=True)
    peak = InstantField(null=True)
    created_at = InstantField(_("enqueued at"))

    class Meta:
        db_table = "statestore_queue_item"
        # No other index has the order: where one had, a planner might take it, and pass over all that is taken.
        constraints = [models.UniqueConstraint(fields=["queue", "free", "seq"], name="statestore_queue_item_order")]
        indexes = [
            models.Index(fields=["token"], name="statestore_queue_item_token", condition=Q(token__isnull=False)),
            models.Index(
                fields=["queue", "hidden_until"],
                name="statestore_queue_item_hidden",
                condition=Q(hidden_until__isnull=False),
            ),
            models.Index(
                fields=["queue", "expires_at"],
                name="statestore_queue_item_expiry",
                condition=Q(expires_at__isnull=False),
            ),
            models.Index(fields=["expires_at"], name="statestore_queue_expired", condition=Q(expires_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.queue_id}/{self.seq}"
