"""How each database spells the few things that the statements cannot say alike.

A statement is written once, as a template. Parameters are written ``%(name)s``; durations are milliseconds or NULL.

``{now}``                   a fresh reading of the database's clock
``{after[ttl]}``            the instant that lies the parameter ``ttl`` after ``{now}``
``{clock}``                 the same clock as a scalar sub-select, so that a scan can use its index
``{before_clock[age]}``     the instant that lies the parameter ``age`` before ``{clock}``
``{earlier[column]}``       the instant in a column, moved the parameter ``age`` into the past
``{clock_before[column]}``  the same for milliseconds that stand in a column
``{epoch[deadline]}``       the instant that lies the parameter ``deadline`` after 1970 in UTC
``{micros}``                the clock as whole microseconds
``{read}``                  one reading for a whole UPDATE that decides by it; ``{from_clock}`` then stands before WHERE
``{after_read[lease]}``     the instant that lies the parameter ``lease`` after ``{read}``
``{seconds_until[column]}`` the seconds from now to the instant in a column
``{greatest}``, ``{least}`` the greater and the lesser of two values
``{batch}``, ``{end}``      enclose, before a bracket, the SELECT of the ids that an UPDATE or DELETE takes: it is done
                            once, passes over rows that somebody else has locked, and its rows are then found by their
                            ids, where a join would look at all that the UPDATE or DELETE might take
``{from_update}``           ends the SELECT of an INSERT that goes with an UPDATE: see ``chains``
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold one statement as Django's cursor takes it, and as SQLite's own connection does."""

    text: str
    native: str


class _Pattern:
    """Let a template say ``{after[ttl]}``: the name in the brackets takes the place of the @."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __getitem__(self, name: str) -> str:
        return self._pattern.replace("@", name)


@dataclass(frozen=True)
class Dialect:
    """Render templates for one database, each once."""

    vendor: str
    now: str
    after: str
    before_clock: str
    epoch: str
    earlier: str
    read: str
    after_read: str
    from_clock: str
    seconds_until: str
    micros: str
    greatest: str
    least: str
    batch: str
    end: str
    chains: bool
    """Whether one statement can update a row and insert others from what it returned."""
    _rendered: dict[str, Statement] = field(default_factory=dict, compare=False)

    def render(self, template: str) -> Statement:
        statement = self._rendered.get(template)
        if statement is None:
            text = template.format(
                now=self.now,
                clock=f"(select {self.now})",
                after=_Pattern(self.after.replace("@", "%(@)s")),
                read=self.read,
                after_read=_Pattern(self.after_read.replace("@", "%(@)s")),
                from_clock=self.from_clock,
                before_clock=_Pattern(self.before_clock.replace("@", "%(@)s")),
                epoch=_Pattern(self.epoch.replace("@", "%(@)s")),
                earlier=_Pattern(self.earlier),
                clock_before=_Pattern(self.before_clock),
                from_update="from changed" if self.chains else "where true",
                seconds_until=_Pattern(self.seconds_until),
                micros=self.micros,
                greatest=self.greatest,
                least=self.least,
                batch=self.batch,
                end=self.end,
            )
            statement = Statement(text, re.sub(r"%\((\w+)\)s", r":\1", text).replace("%%", "%"))
            self._rendered[template] = statement
        return statement


_SQLITE_NOW = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer)"

SQLITE = Dialect(
    vendor="sqlite",
    now=_SQLITE_NOW,
    after=f"({_SQLITE_NOW} + @)",
    before_clock=f"({_SQLITE_NOW} - @)",
    epoch="@",
    earlier="(@ - %(age)s)",
    read=_SQLITE_NOW,  # one statement has one time on SQLite
    after_read=f"({_SQLITE_NOW} + @)",
    from_clock="",
    seconds_until=f"((@ - {_SQLITE_NOW}) / 1000.0)",
    micros=f"({_SQLITE_NOW} * 1000)",
    greatest="max",
    least="min",
    batch="in (",  # one writer at a time: nobody else has locked anything
    end="",
    chains=False,
)

POSTGRESQL = Dialect(
    vendor="postgresql",
    now="clock_timestamp()",
    after="(clock_timestamp() + @::bigint * interval '1 millisecond')",
    before_clock="(select clock_timestamp() - @::bigint * interval '1 millisecond')",
    earlier="(@ - %(age)s::bigint * interval '1 millisecond')",
    epoch="(timestamptz '1970-01-01 00:00:00+00' + @::bigint * interval '1 millisecond')",
    read="clock.read",
    after_read="(clock.read + @::bigint * interval '1 millisecond')",
    from_clock="from (select clock_timestamp() as read) as clock",
    seconds_until="extract(epoch from @ - clock_timestamp())",
    micros="(extract(epoch from clock_timestamp()) * 1000000)::bigint",
    greatest="greatest",
    least="least",
    batch="= any (array (",
    end="for update skip locked)",
    chains=True,
)

DIALECTS = {dialect.vendor: dialect for dialect in (SQLITE, POSTGRESQL)}
