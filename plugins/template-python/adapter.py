"""The adapter's exports, and what the rail's replies say by the names of rail.toml."""

import json
from decimal import Decimal

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.adapter import Description, Operation, Payment, Reply, Violation

# What this rail takes at most in one payment, in the currency's smallest unit.
MINOR_UNITS_MAX = 100_000_000_000_000_000


class Adapter(exports.Adapter):
    def describe(self) -> Description:
        return Description(
            name="example",
            version="0.1.0",
            currencies=[],
            settings=[],
            variables=[],
            facts=["status", "reason", "body"],
        )

    def validate(self, payment: Payment) -> None:
        """What the fields of rail.toml cannot say."""
        # Without its point the amount is in the smallest unit. A float would not be the amount any more.
        digits = payment.amount.replace(".", "", 1)
        if not (digits.isascii() and digits.isdigit()) or Decimal(digits) > MINOR_UNITS_MAX:
            raise Err([Violation("amount", "is more than this rail takes")])

    def disburse(self, payment: Payment) -> list[tuple[str, str]]:
        """rail.toml leaves no variable to the adapter."""
        return []

    def query_status(self, payment: Payment) -> list[tuple[str, str]]:
        return []

    def read(self, operation: Operation, step: str, reply: Reply) -> list[tuple[str, str]]:
        """An adapter's own reading can only make the host ask again: read strictly, and say no more than the reply does."""
        # An empty 404 is all that the rail says of a payment that it does not know.
        if reply.status == 404 and not reply.body.strip(b" \t\n\f\r"):
            return [("body", "blank")]
        try:
            return facts(strict_json(reply.body))
        except ValueError as error:
            raise Err(str(error))


def facts(said: object) -> list[tuple[str, str]]:
    """What follows from a fact is for the code table of rail.toml to say."""
    if not isinstance(said, dict):
        raise ValueError("the reply is no object")
    found = [(name, text(name, said[name])) for name in ("status", "reason") if said.get(name) is not None]
    if said.get("status") is None:
        raise ValueError("status is missing")
    return found


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    value.encode()  # JSON may hold half a character, "\\ud800", which is no text: it would end the call.
    return value


def strict_json(body: bytes) -> object:
    """Python alone would take NaN and a member that stands there twice, and make floats of numbers."""
    return json.loads(body.decode(), parse_float=Decimal, parse_constant=not_json, object_pairs_hook=members)


def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    said = dict(pairs)
    if len(said) != len(pairs):
        raise ValueError("a member stands there twice")
    return said


def not_json(word: str) -> object:
    raise ValueError(f"{word} is not JSON")
