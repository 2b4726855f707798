"""Plays the agency, the gateway and the switch on loopback: simulator.py [--lose N] [--mislead N] [--tell ADDRESS]

Prints the port, then serves. It reads with parsers that the host does not use, checks every signature, and keeps the one ledger that
cannot lie: GET /ledger tells what was paid, to whom, and how often. The first N replies to requests that paid are lost on the way; the first N recipients are made with another number. The switch
tells ADDRESS what became of a payment: first in forged words, then in its own.
"""

import base64
import hashlib
import hmac
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

BODY_KEY = b"habits-body-key"
ADDRESS_KEY = b"habits-address-key"
REQUEST_KEY, ANSWER_KEY, TOLD_KEY = b"habits-request-key", b"habits-answer-key", b"habits-told-key"
CHALLENGE = "2f8a-once"
CLIENT = {"grant_type": ["client_credentials"], "client_id": ["habits-client"], "client_secret": ["habits-secret"]}
TOKEN = "habits-token"
NOBODY = "0960000000"
GOSSIP = 66600  # a quote for it is answered with every secret that the agency knows
lock = Lock()
quotes, recipients, transfers, paid = {}, {}, {}, {}


def count(option):
    return int(sys.argv[sys.argv.index(option) + 1]) if option in sys.argv else 0


told_at = sys.argv[sys.argv.index("--tell") + 1] if "--tell" in sys.argv else None
left_to_lose, left_to_mislead = count("--lose"), count("--mislead")


def signed(key, text):
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def tell(news):
    """Three forged callbacks, then the true one, twice."""
    body = json.dumps(news).encode()
    lie = json.dumps({**news, "state": "FAILED", "error": "NO_SUCH_PAYEE"}).encode()
    other = json.dumps({**news, "reference": "11e594f4-8195-4c10-a301-5d0bf0447a22"}).encode()
    for said, by in [
        (lie, "sha256=" + signed(TOLD_KEY, body)),
        (lie, "sha256=" + signed(ANSWER_KEY, lie)),
        (other, "sha256=" + signed(TOLD_KEY, other)),
        (body, "sha256=" + signed(TOLD_KEY, body)),
        (body, "sha256=" + signed(TOLD_KEY, body)),
    ]:
        try:
            urlopen(Request(told_at, said, {"X-Signature": by, "Content-Type": "application/json"}), timeout=20).read()
        except (URLError, OSError):
            pass  # a forged one is not found


class Rail(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, said):
        body = said.encode() if isinstance(said, str) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def pay(self, key, entry):
        """Pays once per key; the reply may be lost afterwards."""
        global left_to_lose
        with lock:
            known = paid.setdefault(key, {**entry, "executions": 0})
            if known["executions"] == 0:
                known["executions"] = 1
            is_lost, left_to_lose = left_to_lose > 0, max(0, left_to_lose - 1)
        if is_lost:
            self.close_connection = True
            self.connection.close()
        return not is_lost

    def do_POST(self):
        global left_to_mislead
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/oauth/token":
            sound = parse_qs(body.decode("ascii"), strict_parsing=True) == CLIENT
            return self.say(200, {"access_token": TOKEN, "expires_in": 600}) if sound else self.say(401, {})
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.say(401, {})
        if not hmac.compare_digest(self.headers["X-Signature"], signed(BODY_KEY, body)):
            return self.say(400, {"error": "BAD_SIGNATURE"})
        asked = json.loads(body)
        if asked.get("amount") == GOSSIP:
            return self.say(400, {"error": f"{TOKEN} {CLIENT['client_secret'][0]} {BODY_KEY.decode()}"})
        with lock:
            if self.path == "/quotes":
                if type(asked["amount"]) is not int or asked["unit"] != "ngwee":
                    return self.say(400, {"error": "BAD_UNIT"})
                number = f"q-{len(quotes)}"
                quotes[number] = asked["amount"]
                return self.say(201, {"id": number, "amount": asked["amount"], "unit": "ngwee"})
            if self.path == "/recipients":
                if asked["phone"] == NOBODY:
                    return self.say(422, {"error": "NO_SUCH_PAYEE"})
                phone = "0969999999" if left_to_mislead else asked["phone"]
                left_to_mislead = max(0, left_to_mislead - 1)
                number = f"r-{len(recipients)}"
                recipients[number] = phone
                return self.say(201, {"id": number, "phone": phone})
        key = self.headers["Idempotency-Key"]
        known = transfers.get(key)
        if known is None:
            entry = {"amount": quotes[asked["quote"]], "payee": recipients[asked["recipient"]]}
            known = transfers[key] = {"id": f"t-{len(transfers)}", "reference": key, "state": "SENT"}
            if not self.pay(key, entry):
                return None
        return self.say(202, known)

    def do_PUT(self):
        """The switch. A signature by RFC 9421 over method, address and digest, then a challenge, then the transfer."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        digest = "sha-256=:" + base64.b64encode(hashlib.sha256(body).digest()).decode() + ":"
        parameters = self.headers["Signature-Input"].removeprefix("sig1=")
        target = f"http://127.0.0.1:{server.server_port}{self.path}"
        base = f'"@method": PUT\n"@target-uri": {target}\n"content-digest": {digest}\n"@signature-params": {parameters}'
        mac = base64.b64encode(hmac.new(REQUEST_KEY, base.encode(), hashlib.sha256).digest()).decode()
        covers = re.fullmatch(
            r'\("@method" "@target-uri" "content-digest"\);created=\d+;expires=\d+;keyid="us"', parameters
        )
        if not covers or self.headers["Content-Digest"] != digest or self.headers["Signature"] != f"sig1=:{mac}:":
            return self.say(400, {"error": "BAD_SIGNATURE"})
        if self.headers["X-Answer"] != signed(ANSWER_KEY, CHALLENGE.encode()):
            self.send_response(403)
            self.send_header("X-Challenge", CHALLENGE)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        asked, key = json.loads(body), self.path.removeprefix("/switch/")
        whole, decimals = asked["amount"].split(".")
        is_new = key not in paid
        news = {"reference": key, "id": f"s-{len(paid)}", "state": "DONE", "amount": asked["amount"], "to": asked["to"]}
        if asked["to"] == "NOBODY":
            news = {**news, "state": "FAILED", "error": "NO_SUCH_PAYEE"}
        elif not self.pay(key, {"amount": int(whole) * 100 + int(decimals), "payee": asked["to"]}):
            Thread(target=tell, args=[news]).start()
            return None
        if is_new and told_at:
            Thread(target=tell, args=[news]).start()
        return self.say(202, "")

    def do_GET(self):
        address = urlsplit(self.path)
        query = {name: texts[0] for name, texts in parse_qs(address.query, keep_blank_values=True).items()}
        if address.path == "/ledger":
            return self.say(200, paid)
        if address.path == "/pay":
            text = f"{query['id']}|{query['amount']}|{query['account']}"
            if not hmac.compare_digest(query["sign"], signed(ADDRESS_KEY, text.encode())):
                return self.say(403, "BAD SIGNATURE")
            whole, decimals = query["amount"].split(".")
            entry = {"amount": int(whole) * 100 + int(decimals), "payee": query["account"]}
            return self.say(200, "OK") if self.pay(query["id"], entry) else None
        if address.path == "/status":
            return self.say(200, "OK" if query["id"] in paid else "NONE")
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.say(401, {})
        if address.path == "/transfers":
            known = transfers.get(query["reference"])
            return self.say(200, {"transfers": [{**known, "state": "DONE"}] if known else []})
        known = next((one for one in transfers.values() if address.path == f"/transfers/{one['id']}"), None)
        return self.say(200, {**known, "state": "DONE"}) if known else self.say(404, {"error": "NONE"})


server = ThreadingHTTPServer(("127.0.0.1", 0), Rail)
print(server.server_port, flush=True)
server.serve_forever()
