"""A client of the cluster's broker that speaks NATS: it does what no command of Warploom does."""

import json
import re
import socket
import tomllib

from common import Failed


class Bus:
    """A connection with the login of the cluster, or of a tenant."""

    def __init__(self, credentials, tenant=None):
        with open(credentials, "rb") as file:
            told = tomllib.load(file)
        self.cluster = told["cluster"]
        logins = {login["name"]: login for login in told["tenants"]}
        login = logins[tenant] if tenant else told["cluster_user"]
        host, port = re.fullmatch(r"nats://(.+):(\d+)", told["url"]).groups()
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        options = {"verbose": False, "pedantic": False, "headers": True, "lang": "python", "version": "0",
                   "protocol": 1, "user": login["user"], "pass": login["password"]}
        self._send(f"CONNECT {json.dumps(options)}")
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()

    def _send(self, line, payload=None):
        end = b"" if payload is None else payload + b"\r\n"
        self.socket.sendall(line.encode() + b"\r\n" + end)

    def _line(self):
        """The next line that the broker does not say for the connection's own sake."""
        while True:
            line = self.lines.readline()
            if line.startswith(b"PING"):
                self._send("PONG")
            elif not line or line.startswith(b"-ERR"):
                raise Failed(f"the broker: {line}")
            elif not line.startswith((b"INFO", b"+OK")):
                return line

    def flush(self):
        """Waits until the broker has read everything; nothing else may come meanwhile."""
        self._send("PING")
        line = self._line()
        if not line.startswith(b"PONG"):
            raise Failed(f"the broker: {line}")

    def publish(self, subject, payload, reply=""):
        self._send(f"PUB {subject} {reply} {len(payload)}", payload)

    def next(self, subject):
        """The payload of the next message of a subject."""
        self._send(f"SUB {subject} 1")
        self._send("UNSUB 1 1")
        return self._message()

    def request(self, subject, payload):
        """What is answered to a message."""
        self._send("SUB _INBOX.metrics 1")
        self._send("UNSUB 1 1")
        self.publish(subject, json.dumps(payload).encode(), "_INBOX.metrics")
        return json.loads(self._message())

    def _message(self):
        kind, *parts = self._line().split()
        if kind not in (b"MSG", b"HMSG"):
            raise Failed(f"the broker: {kind} {parts}")
        body = self.lines.read(int(parts[-1]) + 2)[:-2]
        return body[int(parts[-2]):] if kind == b"HMSG" else body
