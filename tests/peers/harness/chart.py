"""The Helm chart: rendered by Helm's engine, held against Kubernetes' schemas, and run as processes."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from . import fatbin, wheels
from .kubelet import Node, Unknown, image

PEERS = pathlib.Path(__file__).resolve().parents[1]
ROOT = PEERS.parents[1]
HELM = ROOT / "ops/helm"
PAGE = ROOT / "docs/howto/kubernetes.md"

POOL = {"replicas": 2, "device": "cuda", "firstGpu": 4, "group": "batch", "exclusive": True,
        "drainSeconds": 0, "resources": {}}
TENANTS = {"default": {}, "chat": {"namespace": "chat", "priority": 0},
           "train": {"namespace": "research", "priority": 4, "quota": "8GiB", "slo": "none",
                     "groups": ["default"]}}

#: A collector, by its name in a cluster.
COLLECTOR = "collector.observability.svc:4318"
TRACED = {"otlp": f"http://{COLLECTOR}"}

#: Attributes of telemetry, and the fields of a pod that they come from.
PLACE = {"k8s.node.name": "spec.nodeName", "k8s.namespace.name": "metadata.namespace", "k8s.pod.name": "metadata.name"}

#: Values that are right, by name.
GOOD = {
    "defaults": {},
    "tables": {"client": {"runtimeTables": True}},
    "no tables": {"client": {"runtimeTables": False}},
    "whole": {"broker": {"replicas": 3}, "telemetry": TRACED,
              "client": {"runtimeTables": True, "settings": {"client.deadline": "2m"}},
              "tenants": TENANTS,
              "workers": {"cpu": {"replicas": 2, "drainSeconds": 20, "settings": {"worker.threads": 2}}}},
    "one leader": {"leaders": {"replicas": 1}},
    "cuda": {"workers": {"cpu": None, "big": POOL}},
    "two pools": {"workers": {"big": POOL}},
    "own secret": {"auth": {"existingSecret": "ours"}},
    "traces": {"telemetry": TRACED, "tracer": {"settings": {"log.filter": "info"}, "nodeSelector": {"disk": "none"},
                                               "tolerations": [{"operator": "Exists"}]}},
    "https": {"telemetry": {"otlp": "https://collector.example/otlp"}},
    "no tenant": {"tenants": {"default": None}, "imagePullSecrets": [{"name": "registry"}]},
}
#: Values that are wrong, and what the refusal names.
BAD = {
    "a word for the tables": ({"client": {"runtimeTables": "on"}}, "runtimeTables"),
    "the tables as a setting": ({"client": {"settings": {"client.runtime_tables": "on"}}},
                                "client.runtime_tables"),
    "an unknown value": ({"client": {"runtimeTable": True}}, "runtimeTable"),
    "two servers": ({"broker": {"replicas": 2}}, "broker/replicas"),
    "no leader": ({"leaders": {"replicas": 0}}, "leaders/replicas"),
    "another device": ({"workers": {"cpu": {"device": "tpu"}}}, "workers/cpu/device"),
    "devices of one number": ({"workers": {"big": {**POOL, "firstGpu": 0}}}, "same numbers"),
    "a name that is none": ({"tenants": {"Chat": {}}}, "Chat"),
    "a priority that is none": ({"tenants": {"chat": {"priority": 5}}}, "priority"),
    "a collector that is no URL": ({"telemetry": {"otlp": COLLECTOR}}, "telemetry/otlp"),
    "a collector with a login": ({"telemetry": {"otlp": "http://a:b@collector:4318"}}, "telemetry/otlp"),
    "a collector of one role": ({"leaders": {"settings": {"telemetry.otlp": "http://c:4318"}}}, "telemetry.otlp"),
    "two tracers": ({"telemetry": TRACED, "tracer": {"replicas": 2}}, "replicas"),
    "a word of the shell": ({"tenants": {"chat": {"quota": "1; true"}}}, "quota"),
}


def chart(stage, row):
    """The chart's manifests are right by Helm and Kubernetes, and a cluster of them runs CUDA programs."""
    answer = _rendered(stage)
    _manifests(row, answer)
    if row.state != "passed":
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="peers-chart-"))
    folder.chmod(0o755)
    try:
        programs = _programs(stage, folder)
        _run(stage, row, "whole", answer, folder / "whole", programs)
        _run(stage, row, "no tables", answer, folder / "again", programs)
        # Installed once more on the volumes that stayed, with other passwords.
        _run(stage, row, "tables", answer, folder / "again", programs, known=True)
    except Unknown as unknown:
        _judge(row, "the kubelet", str(unknown))
    finally:
        for log in folder.glob("*/*/*.log"):
            place = stage.keep / "chart" / log.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(log, place)
        shutil.rmtree(folder, ignore_errors=True)


def _judge(row, what, wrong):
    """Counts a check, which failed if there is something wrong."""
    if wrong:
        row.failed += 1
        row.fail(f"{what}: {wrong}")
    else:
        row.passed += 1


def _rendered(stage):
    python = wheels.environment(stage.options.tools, "chart-requirements.txt")
    asked = {"chart": str(HELM / "warploom"), "page": str(PAGE), "upgrade": {"tenants": TENANTS},
             "cases": {**GOOD, **{name: values for name, (values, _) in BAD.items()}}}
    ran = subprocess.run([python, "-B", PEERS / "chart/render.py"], input=json.dumps(asked), check=False,
                         capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip()[-500:])
    return json.loads(ran.stdout)


def _manifests(row, answer):
    """What can be said of the manifests without running them."""
    _judge(row, "helm lint", answer["lint"])
    _judge(row, f"the pod of {PAGE.name}", answer["pods_invalid"] or len(answer["pods"]) != 1)
    for name in GOOD:
        case = answer["cases"][name]
        _judge(row, name, case.get("refused") or case["invalid"] or list(_careless(case["objects"])))
    for name, (_, named) in BAD.items():
        refused = answer["cases"][name].get("refused", "it was not refused")
        _judge(row, name, None if named in refused else refused)
    if row.state != "passed":
        return
    for name, wanted in (("defaults", "off"), ("no tables", "off"), ("tables", "on"), ("whole", "on")):
        case = answer["cases"][name]
        files = [it["data"]["warploom.toml"] for it in _of(case, "ConfigMap", "-client")]
        _judge(row, f"{name}: client.runtime_tables", not files or any(
            f'\nclient.runtime_tables = "{wanted}"\n' not in f"{file}\n" for file in files))
        _judge(row, f"{name}: the notes", f"client.runtimeTables is {wanted}" not in case["notes"]
               or "docs/howto/cuda-runtime.md" not in case["notes"])
    (leaders,) = _of(answer["cases"]["one leader"], "Deployment", "-leader")
    _judge(row, "one leader", leaders["spec"]["replicas"] != 1)
    pools = _of(answer["cases"]["cuda"], "StatefulSet", "-worker-big")
    limits = [it["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] for it in pools]
    _judge(row, "cuda", limits != [{"nvidia.com/gpu": 1}])
    for name in GOOD:
        _judge(row, f"{name}: the tracer", list(_untraced(name, answer["cases"][name])))
        _judge(row, f"{name}: attributes of pods", list(_unplaced(name, answer["cases"][name])))
    _judge(row, "traces: what starts anew", _unmoved(answer["cases"]["defaults"], answer["cases"]["traces"]))
    _judge(row, "own secret", _of(answer["cases"]["own secret"], "Secret", ""))
    _judge(row, "an upgrade", _forgotten(answer["cases"]["defaults"], answer["upgrade"]))
    row.notes.append(f"{len(GOOD)} sets of values, "
                     f"{sum(len(answer['cases'][name]['objects']) for name in GOOD)} objects; {len(BAD)} refused")


def _untraced(name, case):
    """What is wrong with the tracer, and with the collector in the roles' files: both are there if one is given."""
    url = GOOD[name].get("telemetry", {}).get("otlp")
    pools = {it["metadata"]["name"].split("-worker-")[1] for it in _of(case, "StatefulSet", "")
             if "-worker-" in it["metadata"]["name"]}
    wanted = {"leader.toml", *(f"worker-{pool}.toml" for pool in pools), *(["tracer.toml"] if url else [])}
    (roles,) = _of(case, "ConfigMap", "-roles")
    if set(roles["data"]) != wanted:
        yield f"the files are {sorted(roles['data'])}"
    for file, text in roles["data"].items():
        told = [line for line in text.splitlines() if line.startswith(("telemetry.", "cluster."))]
        if told != ([f'telemetry.otlp = "{url}"', 'cluster.name = "warploom"'] if url else []):
            yield f"{file} has {told}"
    if any("telemetry" in it["data"]["warploom.toml"] for it in _of(case, "ConfigMap", "-client")):
        yield "programs are told of the collector"
    tracers = [it for it in case["objects"] if it["kind"] not in ("ConfigMap", "Secret") and "tracer" in json.dumps(it)]
    if [it["kind"] for it in tracers] != (["Deployment"] if url else []):
        yield f"there are {[it['kind'] for it in tracers]}"
        return
    for it in tracers:
        spec, (leader,) = it["spec"], _of(case, "Deployment", "-leader")
        if (it["metadata"]["name"], spec["replicas"], spec.get("strategy")) != (
                "demo-warploom-tracer", 1, {"type": "Recreate"}):
            yield "two may run at once"
        pod, other = spec["template"]["spec"], leader["spec"]["template"]["spec"]
        values = GOOD[name].get("tracer", {})
        for key in ("nodeSelector", "tolerations"):
            if pod.get(key) != values.get(key):
                yield f"{key} is {pod.get(key)}"
        for key in ("securityContext", "initContainers", "volumes", "automountServiceAccountToken"):
            if pod.get(key) != other[key]:
                yield f"{key} is not a leader's"
        (container,) = pod["containers"]
        if container["command"] != ["warploom", "tracer"] or container["env"][0] != {
                "name": "WARPLOOM_CONFIG", "value": "/etc/warploom/tracer.toml"}:
            yield f"it runs {container['command']} with {container['env']}"
        if {"ports", "readinessProbe", "livenessProbe", "startupProbe"} & container.keys():
            yield "it has ports or probes"
        for key, value in values.get("settings", {}).items():
            if f'\n{key} = "{value}"\n' not in f"{roles['data']['tracer.toml']}\n":
                yield f"{key} is not told"


def _unplaced(name, case):
    """The pods that do not tell where they run by OpenTelemetry's variable: each role does where a collector is given,
    and no other pod."""
    roles = {"leader", "worker", "tracer"} if "telemetry" in GOOD[name] else set()
    for it in case["objects"]:
        template = it.get("spec", {}).get("template")
        if it["kind"] not in ("Deployment", "StatefulSet"):
            continue
        role = template["metadata"]["labels"]["app.kubernetes.io/component"]
        (container,) = template["spec"]["containers"]
        fields = {}
        for entry in container.get("env", ()):
            if path := entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath"):
                fields[entry["name"]] = path
            elif entry["name"] == "OTEL_RESOURCE_ATTRIBUTES":
                pairs = (pair.split("=") for pair in entry["value"].split(","))
                # Only variables before it count.
                told = {key: fields.get(value.removeprefix("$(").removesuffix(")")) for key, value in pairs}
                break
        else:
            told = None
        if told != (PLACE if role in roles else None):
            yield f"{it['metadata']['name']}: {told}"


def _unmoved(before, after):
    """Where a collector is given: the roles that do not start anew, and the broker if it does."""
    def sums(case):
        return {it["metadata"]["name"]: it["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
                for it in case["objects"] if it["kind"] in ("Deployment", "StatefulSet")}
    old, new = sums(before), sums(after)
    return [name for name in old if (old[name] == new[name]) != name.endswith("-broker")]


def _forgotten(before, after):
    """Of the passwords that an install made, those that an upgrade changed; new tenants get new ones."""
    if "refused" in after:
        return after["refused"]
    old, new = ({key: text for key, text in _of(case, "Secret", "-broker")[0]["stringData"].items()
                 if key.startswith("password-")} for case in (before, after))
    changed = [key for key in old if new.get(key) != old[key]]
    made = sorted(new.keys() - old.keys())
    if len(old) != 4 or made != ["password-tenant-chat", "password-tenant-train"]:
        return f"{sorted(old)} were there, {made} were made"
    (chat,) = _of(after, "Secret", "-tenant-chat")
    given = new["password-tenant-chat"] in chat["stringData"]["credentials.toml"]
    return changed or (not given and "chat's Secret has another password")


def _of(case, kind, end):
    return [it for it in case["objects"] if it["kind"] == kind and it["metadata"]["name"].endswith(end)]


def _careless(objects):
    """What a namespace that takes restricted pods only would refuse, and what asks for no resources."""
    for it in objects:
        spec = it["spec"] if it["kind"] == "Pod" else it.get("spec", {}).get("template", {}).get("spec")
        if spec is None:
            continue
        name, context = it["metadata"]["name"], spec["securityContext"]
        if not context["runAsNonRoot"] or context["seccompProfile"] != {"type": "RuntimeDefault"}:
            yield f"{name} may be root's"
        for one in [*spec.get("initContainers", ()), *spec["containers"]]:
            own = one["securityContext"]
            if (own["allowPrivilegeEscalation"], own["capabilities"]) != (False, {"drop": ["ALL"]}):
                yield f"{name}: {one['name']} has rights"
            if not own["readOnlyRootFilesystem"]:
                yield f"{name}: {one['name']} writes everywhere"
            if "requests" not in one["resources"] and it["kind"] != "StatefulSet":
                yield f"{name}: {one['name']} asks for nothing"


def _programs(stage, folder):
    """What the image has, and the program with the CUDA runtime in it that a tenant brings."""
    vector_add = folder / "vector_add"
    library = stage.options.binary.parent / "libwarploom_cuda.so"
    if not library.is_file():
        library = library.parent / "deps" / library.name
    _compile(vector_add, ROOT / "tests/end-to-end/programs/vector_add.c", library)
    pages, script, share = folder / "man1", folder / "warploom.bash", "/usr/local/share/warploom"
    subprocess.run([stage.options.binary, "man", pages], check=True, capture_output=True)
    with script.open("wb") as out:
        subprocess.run([stage.options.binary, "completions", "bash"], check=True, stdout=out)
    image(folder / "image", HELM / "Containerfile", {
        "/usr/local/bin/warploom": stage.options.binary, "/usr/local/bin/nats-server": _nats_server(stage),
        "/usr/local/lib/warploom/libwarploom_cuda.so": library, f"{share}/vector_add": vector_add,
        "/usr/local/share/man/man1": pages, "/usr/share/bash-completion/completions/warploom": script,
        f"{share}/vector_add.ptx": ROOT / "tests/kernels/vector_add.ptx", f"{share}/LICENSE": ROOT / "LICENSE"})
    runtimes = wheels.libraries(stage.options.tools, "runtime-requirements.txt")
    newest = max(runtimes.iterdir(), key=lambda it: [int(part) for part in it.name.split(".")])
    (shared,) = newest.glob("nvidia/*/lib/libcudart.so.*")
    program, kernels, runtime = (folder / name for name in ("runtime", "add_one.fatbin", "libcudart.so"))
    _compile(program, PEERS / "programs/runtime.c", "-ldl")
    kernels.write_bytes(fatbin.of_ptx((PEERS / "programs/add_one.ptx").read_text()))
    shutil.copy(shared, runtime)
    for path in (kernels, runtime):
        path.chmod(0o644)
    return [str(path) for path in (program, kernels, runtime)]


def _compile(output, source, *arguments):
    made = subprocess.run(["gcc", "-O1", "-o", output, source, *arguments], capture_output=True, text=True,
                          check=False)
    if made.returncode:
        raise RuntimeError(made.stderr.strip())


def _nats_server(stage):
    """The server that the harness's own cluster runs."""
    (pid,) = (stage.cluster.folder / "state").rglob("nats-server.pid")
    return pathlib.Path(f"/proc/{pid.read_text().strip()}/exe").resolve()


def _run(stage, row, name, answer, folder, programs, known=False):
    """Starts all that one case renders, runs programs on it, and ends it; whether its tenants are known."""
    case, (page,) = answer["cases"][name], answer["pods"]
    traced = "telemetry" in GOOD[name]
    collector = Collector(stage, folder) if traced else contextlib.nullcontext()
    others = {COLLECTOR: collector.address} if traced else {}
    with collector, Node(case["objects"], folder.parent / "image", folder, "gpu", others) as node:
        _judge(row, f"{name}: starts", node.ready(60))
        (job,) = _of(case, "Job", "-tenants")
        for known in (known, True):
            code, said = node.once(job, 60)
            right = code == 0 and known != ("there is no tenant" in said)
            _judge(row, f"{name}: the job {'finds' if known else 'makes'} tenants",
                   not right and f"{code}: {said}")
            if not right:
                return
        (test,) = _of(case, "Pod", "-test")
        code, said = node.once(test, 60)
        _judge(row, f"{name}: helm test",
               (code, "10000 sums are right" in said) != (0, True) and f"{code}: {said}")
        if "tenants" in GOOD[name]:
            _judge(row, f"{name}: permissions", _permissions(stage, case))
        _runtime(row, name, node, page, programs)
        if traced:
            _judge(row, f"{name}: traces", collector.missing(30))
        if sum("worker" in pod.name for pod in node.pods) == 1:
            _judge(row, f"{name}: a worker with a session drains", _drained(node, test))
        _end(row, name, node)


class Collector:
    """A collector: tests/peers/otlp/receiver.py."""

    def __init__(self, stage, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.out = folder / "received.jsonl"
        #: While this file exists no post is answered.
        self.hold = folder / "hold"
        self.process = subprocess.Popen(
            [sys.executable, "-B", PEERS / "otlp/receiver.py", "--tools", stage.options.tools, "--out", self.out,
             "--hold", self.hold],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline().split()
        if len(said) != 2:
            raise RuntimeError("the receiver of traces did not start")
        self.address = f"127.0.0.1:{said[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def lines(self):
        """What came, span by span and number by number."""
        whole = self.out.read_text().split("\n")[:-1] if self.out.is_file() else []
        return [json.loads(line) for line in whole]

    def missing(self, limit):
        """Waits for the trace of a request, with its time on a worker; what came instead, or nothing."""
        end = time.monotonic() + limit
        while True:
            spans = [it for it in self.lines() if it["kind"] == "span"]
            clusters = {it["resource"].get("warploom.cluster") for it in spans}
            if clusters == {"warploom"} and {"warploom-client", "warploom-worker"} <= {it["service"] for it in spans}:
                return _misplaced(spans)
            if time.monotonic() > end:
                return f"{len(spans)} spans of {clusters}, services { {it['service'] for it in spans} }"
            time.sleep(0.2)


def _misplaced(spans):
    """The places of spans that are not right: their tracer knows its namespace, which programs need not share."""
    told = {(it["service"], key, value) for it in spans for key, value in it["resource"].items()
            if key.startswith("k8s.")}
    services = {it["service"] for it in spans} - {"warploom-client"}
    wanted = {(service, "k8s.namespace.name", "gpu") for service in services}
    return None if told == wanted else f"{sorted(told)} is not {sorted(wanted)}"


def _runtime(row, name, node, page, programs):
    """Runs a program with the CUDA runtime in it as the pod of our page: it is right, or refused in a line."""
    if "tenants" not in GOOD[name]:
        # The tenant of the page is another one here.
        page = json.loads(json.dumps(page).replace("chat", "default"))
        page["metadata"]["namespace"] = "gpu"
    page["spec"]["containers"][0]["args"] = programs
    code, said = node.once(page, 60)
    if GOOD[name]["client"]["runtimeTables"]:
        _judge(row, f"{name}: the runtime", (code, "right 1000" in said) != (0, True) and f"{code}: {said}")
        return
    refused = code not in (0, None) and "right" not in said and said.count("--cuda-runtime") == 1
    _judge(row, f"{name}: the runtime is refused", not refused and f"{code}: {said}")


def _drained(node, test):
    """Whether a worker that has to go waits for the session of a program that runs; what went wrong."""
    (worker,) = (pod for pod in node.pods if "worker" in pod.name)
    (container,) = test["spec"]["containers"]
    waiting = {**test["spec"], "containers": [{**container, "args": [*container["args"], "wait"]}]}
    program = node.pod(test, waiting)
    program.start()
    code = []
    ending = threading.Thread(target=lambda: code.append(worker.end()))
    try:
        if not _seen(program, "sums are right"):
            return f"the program said {program.said()!r}"
        ending.start()
        if not _seen(worker, "leaves when its 1 have ended") or worker.process.poll() is not None:
            return f"it did not wait, and said {worker.said()!r}"
        program.process.terminate()
        ending.join(60)
        return (code != [0] or "it has left" not in worker.said()) and f"{code}: {worker.said()}"
    finally:
        program.kill()


def _seen(pod, words):
    """Whether a pod says this within a while."""
    end = time.monotonic() + 30
    while words not in pod.said() and time.monotonic() < end:
        time.sleep(0.05)
    return words in pod.said()


def _end(row, name, node):
    """Ends each pod: it has to end by itself, within its period."""
    order = ("worker", "leader", "tracer", "broker")
    pods = sorted(node.pods, key=lambda pod: order.index(pod.labels["app.kubernetes.io/component"]))
    for pod in (pod for pod in pods if not pod.was_ended):
        early = pod.process.poll()
        code = pod.end()
        _judge(row, f"{name}: {pod.name} ends", early is not None and f"early, with {early}: {pod.said()}"
               or code not in (0, 1 if "broker" in pod.name else 0) and f"with {code}: {pod.said()[-500:]}")
        if "preStop" in json.dumps(pod.spec):
            _judge(row, f"{name}: {pod.name} was drained", "it has left" not in pod.said()
                   and f"it said {pod.said()[-500:]!r}")


def _permissions(stage, case):
    """Whether the users may do what those of a broker of `warploom up` may; what differs."""
    def of(text, cluster):
        rules = re.findall(r'password: "\w+", permissions: (\{.*?\} \})', " ".join(text.split()))
        of_anybody = (re.sub(r"\.t\.[\w-]+\.", ".t.TENANT.", rule.replace(" ", "")) for rule in rules)
        return {re.sub(rf"\b{cluster}\b", "CLUSTER", rule) for rule in of_anybody}
    (ours,) = (stage.cluster.folder / "state").rglob("users.conf")
    (secret,) = _of(case, "Secret", "-broker")
    theirs = of(secret["stringData"]["users.conf"], "warploom")
    wanted = of(ours.read_text(), "local")
    return None if theirs == wanted and len(wanted) == 2 else f"{theirs} are not {wanted}"
