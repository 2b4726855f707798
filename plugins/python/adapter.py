"""A rail adapter in Python: the rail of plugins/template, on the same contract."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.adapter import Description, Operation, Payment, Reply, Violation

# What this rail takes at most in one payment, in the currency's smallest unit.
MINOR_UNITS_MAX = 100_000_000_000_000_000


class Adapter(exports.Adapter):
    def describe(self) -> Description:
        return Description(
            name="python-example",
            version="1.0.0",
            currencies=[],
            settings=[],
            variables=[],
            facts=["status", "reason", "body"],
        )

    def validate(self, payment: Payment) -> None:
        """What the fields of rail.toml cannot say."""
        # Without its point the amount is in the smallest unit. A float would not be the amount any more.
        digits = payment.amount.replace(".", "", 1)
        if not (digits.isascii() and digits.isdigit()) or int(digits) > MINOR_UNITS_MAX:
            raise Err([Violation("amount", "is more than this rail takes")])

    def disburse(self, payment: Payment) -> list[tuple[str, str]]:
        """rail.toml leaves no variable to the adapter."""
        return []

    def query_status(self, payment: Payment) -> list[tuple[str, str]]:
        return []

    def read(self, operation: Operation, step: str, reply: Reply) -> list[tuple[str, str]]:
        """An adapter's own reading can only make the host ask again: read strictly, and say no more than the reply does."""
        # An empty 404 is all that the rail says of a payment that it does not know.
        if reply.status == 404 and not reply.body.strip():
            return [("body", "blank")]
        try:
            said = json.loads(reply.body.decode())
        except ValueError as error:
            raise Err(str(error))
        if not isinstance(said, dict):
            raise Err("the reply is no object")
        status, reason = said.get("status"), said.get("reason")
        if not isinstance(status, str):
            raise Err("status is missing, or no text")
        if reason is None:
            return [("status", status)]
        if not isinstance(reason, str):
            raise Err("reason is no text")
        return [("status", status), ("reason", reason)]
