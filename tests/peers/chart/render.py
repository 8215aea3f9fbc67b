"""Lints and renders the chart with Helm's own engine, and holds what comes out against Kubernetes' schemas.

Reads a request in JSON from stdin: `chart` (a folder), `cases` (values by name), `upgrade` (values of an
upgrade that follows the case `defaults`), `page` (a Markdown page whose YAML is wanted). Writes an answer in JSON to stdout.
"""

import json
import pathlib
import re
import sys

import kubernetes_validate
import yaml
from api import server
from helm_python import Chart, Config, HelmError
from helm_python.chart import lint

KUBERNETES = "1.37"
RELEASE, NAMESPACE = "demo", "gpu"


def rendered(chart, values, there=()):
    """What comes of one case: its objects and its notes, or why it is refused. With objects that are there
    already it is an upgrade, which sees them."""
    try:
        chart.validate_schema(values)
        if there:
            with server(there, NAMESPACE) as url, Config(kube_apiserver=url) as cluster:
                files = cluster.render(chart, values, name=RELEASE, namespace=NAMESPACE, is_upgrade=True)
        else:
            files = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    except HelmError as error:
        return {"refused": str(error)}
    notes = next(text for name, text in files.items() if name.endswith("NOTES.txt"))
    texts = (text for name, text in files.items() if name.endswith(".yaml"))
    objects = [it for text in texts for it in yaml.safe_load_all(text) if it]
    return {"objects": objects, "notes": notes, "invalid": list(invalid(objects))}


def invalid(objects):
    """What Kubernetes' schemas, which know every field, say against objects."""
    for it in objects:
        try:
            kubernetes_validate.validate(it, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            where = ".".join(map(str, error.path))
            yield f"{it['kind']} {it['metadata']['name']}: {where}: {error.message}"
        except kubernetes_validate.SchemaNotFoundError as error:
            yield f"{it.get('kind')}: {error.message}"


def main():
    asked = json.load(sys.stdin)
    page = pathlib.Path(asked["page"]).read_text()
    shown = [it for block in re.findall(r"^```yaml\n(.*?)^```", page, flags=re.S | re.M)
             for it in yaml.safe_load_all(block)]
    pods = [it for it in shown if it.get("kind") == "Pod"]
    with Chart.load(asked["chart"]) as chart:
        cases = {name: rendered(chart, values) for name, values in asked["cases"].items()}
        upgrade = rendered(chart, asked["upgrade"], cases["defaults"]["objects"])
    report = lint(asked["chart"], strict=True)
    json.dump({"cases": cases, "upgrade": upgrade, "lint": report["errors"], "pods": pods, "pods_invalid": list(invalid(pods))},
              sys.stdout)


if __name__ == "__main__":
    main()
