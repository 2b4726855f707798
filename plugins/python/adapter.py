"""A rail adapter in Python: the rail of plugins/template, on the same contract."""

import json

from componentize_py_types import Err, Ok, Result
from wit_world import exports
from wit_world.exports.adapter import Description, Need
from wit_world.imports import http, settings, vault
from wit_world.imports.types import (
    Answer_Declined,
    Answer_NotFound,
    Answer_NotSent,
    Answer_Pending,
    Answer_Settled,
    Answer_Unclear,
    Declined,
    Pending,
    RailCode,
    Settled,
    Unclear,
    Violation,
)


class Adapter(exports.Adapter):
    def describe(self):
        return Description(
            name="python-example",
            version="1.0.0",
            currencies=[],
            can_query=True,
            settings=[Need("base_url", True, "where the rail is, without a slash at the end")],
            secrets=[Need("api_key", True, "sent as X-Api-Key")],
            keys=[],
            tokens=[],
        )

    def validate(self, instruction):
        msisdn = part(instruction.destination, "msisdn")
        if not (msisdn.isascii() and msisdn.isdigit() and 9 <= len(msisdn) <= 15):
            raise Err([Violation("destination.msisdn", "must be 9 to 15 digits")])

    def disburse(self, instruction):
        # The amount stays a text: a float would not be the amount any more.
        body = json.dumps(
            {
                "amount": instruction.amount.amount,
                "currency": instruction.amount.currency,
                "payee": part(instruction.destination, "msisdn"),
            }
        )
        headers = [("content-type", "application/json"), ("x-reference-id", instruction.key.uuid)]
        try:
            return known(send("POST", "/payments", headers, body.encode()))
        except Err as failure:
            match failure.value:
                case http.Failure_Denied(why) | http.Failure_NotSent(why):
                    return Answer_NotSent(why)
                case other:
                    return unclear(other.value)

    def query_status(self, instruction):
        try:
            reply = send("GET", f"/payments/{instruction.key.uuid}", [], b"")
        except Err as failure:
            return unclear(failure.value.value)
        return Answer_NotFound() if reply.status == 404 else known(reply)


def send(method, path, headers, body):
    handle = vault.handle("api_key")
    url = (settings.get("base_url") or "") + path
    return http.send(http.Request(method, url, headers + [("x-api-key", handle)], body))


def known(reply):
    """Anything that is not said in so many words is unclear."""
    try:
        said = json.loads(reply.body)
        status, reference, reason = said["status"], said.get("reference"), said.get("reason")
    except (ValueError, KeyError, TypeError, AttributeError):
        return unclear(f"HTTP {reply.status} without a status")
    match status:
        case "PAID" if reference:
            return Answer_Settled(Settled(reference, RailCode("status", "PAID")))
        case "ACCEPTED":
            return Answer_Pending(Pending(reference, RailCode("status", "ACCEPTED")))
        case "REFUSED" if reason:
            return Answer_Declined(Declined(RailCode("reason", reason), "refused by the rail"))
        case _:
            return Answer_Unclear(Unclear(RailCode("status", str(status)), "a status without an explanation"))


def unclear(detail):
    return Answer_Unclear(Unclear(None, detail))


def part(destination, name):
    for field, value in destination.fields:
        if field == name:
            return value
    return destination.plain or ""
