"""As much of a Kubernetes API server as Helm's `lookup` of a Secret asks for."""

import base64
import contextlib
import http.server
import json
import threading

KINDS = [{"name": "secrets", "singularName": "secret", "namespaced": True, "kind": "Secret",
          "verbs": ["get", "list"]}]


@contextlib.contextmanager
def server(objects, namespace):
    """Serves the Secrets among objects, as they are stored; gives the URL."""
    stored = {f"/api/v1/namespaces/{it['metadata'].get('namespace', namespace)}/secrets/{it['metadata']['name']}":
              _stored(it) for it in objects if it["kind"] == "Secret"}
    answers = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": KINDS},
        "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
        **stored,
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = answers.get(self.path.split("?")[0])
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(answer or missing).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


def _stored(secret):
    """A Secret as the API server keeps it: all of it encoded."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in secret["stringData"].items()}
    return {**{key: value for key, value in secret.items() if key != "stringData"}, "data": encoded}
