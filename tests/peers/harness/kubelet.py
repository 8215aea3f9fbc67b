"""Runs rendered Pods as processes of this machine: what of a kubelet's work that takes no Kubernetes.

A container's command, arguments, environment, files, user and hooks are those of its Pod. Paths within a
container become folders of this machine, and names of pods ports of 127.0.0.1. What a Pod asks for and this
does not know is an error. Not kept to: the read-only root (but its user can write nowhere else), limits of
memory and processors, who may reach whom.
"""

import base64
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

#: Where images have their own files.
IMAGE = "/usr/local"
#: The name of the node.
NODE = "node-1"
INDEX = "apps.kubernetes.io/pod-index"


class Unknown(RuntimeError):
    """A Pod asks for what this kubelet does not do."""


class Node:
    """The objects of a namespace, and the pods that were started of them. `others` has the names of what is no
    pod, and where that is here."""

    def __init__(self, objects, image, folder, namespace, others=()):
        self.image, self.folder, self.namespace = image, folder, namespace
        self.data = {(it["kind"], it["metadata"].get("namespace", namespace), it["metadata"]["name"]): data(it)
                     for it in objects if it["kind"] in ("ConfigMap", "Secret")}
        self.templates = [it for it in objects if it["kind"] in ("StatefulSet", "Deployment")]
        self.pods = [Pod(self, *planned) for it in self.templates for planned in pods_of(it)]
        #: Whatever names a pod and its port, and where that is here.
        self.names = {f"{pod.name}.{pod.service}.{namespace}.svc:{port}": f"127.0.0.1:{here}"
                      for pod in self.pods for port, here in pod.ports.items()} | dict(others)

    def __enter__(self):
        for pod in self.pods:
            pod.start()
        return self

    def __exit__(self, *_):
        for pod in self.pods:
            pod.kill()

    def ready(self, limit):
        """Waits until every pod's probe connects; why not, or nothing."""
        end = time.monotonic() + limit
        for pod in self.pods:
            while not pod.is_ready():
                if pod.process.poll() is not None:
                    return f"{pod.name} ended: {pod.said()}"
                if time.monotonic() > end:
                    return f"{pod.name} is not ready within {limit} s: {pod.said()}"
                time.sleep(0.05)
        return None

    def ended(self):
        """Of each pod that ended by itself, why."""
        return [f"{pod.name} ended: {pod.said()[-500:]}" for pod in self.pods
                if pod.process and pod.process.poll() is not None]

    def pod(self, it, spec):
        """A pod of its own, not started."""
        name = f"{it['metadata']['name']}-{os.urandom(3).hex()}"
        return Pod(self, name, spec, {}, None, it["metadata"].get("namespace"))

    def once(self, it, limit):
        """Runs a Pod, or a Job's pod as often as it may fail, to its end: exit code and what it said."""
        template = it["spec"]["template"] if it["kind"] == "Job" else it
        for _ in range(1 + it["spec"].get("backoffLimit", 0)):
            pod = self.pod(it, template["spec"])
            code = pod.start(limit)
            # A Job's time is over for all its tries.
            if code in (0, None):
                break
        return code, "; ".join([pod.said(), *self.ended()])


def data(it):
    """The files of a ConfigMap or Secret."""
    plain = {**it.get("data", {}), **it.get("stringData", {})}
    if it["kind"] == "Secret":
        plain.update({key: base64.b64decode(text).decode() for key, text in it.get("data", {}).items()})
    return plain


def pods_of(it):
    """The pods that a StatefulSet or Deployment would make: name, spec, labels, service."""
    spec, name = it["spec"], it["metadata"]["name"]
    wanted, has = spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]
    if not wanted.items() <= has.items():
        raise Unknown(f"{name}: its selector does not choose its own pods")
    claims = [{"name": claim["metadata"]["name"], "persistentVolumeClaim": {}}
              for claim in spec.get("volumeClaimTemplates", ())]
    pod = {**spec["template"]["spec"], "volumes": spec["template"]["spec"]["volumes"] + claims}
    first = spec.get("ordinals", {}).get("start", 0)
    for index in range(first, first + spec["replicas"]):
        labels = {**has, INDEX: str(index)} if it["kind"] == "StatefulSet" else has
        yield f"{name}-{index}", pod, labels, spec.get("serviceName")


class Pod:
    """One pod: its init containers run to their end, and then its only container."""

    def __init__(self, node, name, spec, labels, service, namespace=None):
        self.node, self.name, self.spec, self.labels, self.service = node, name, spec, labels, service
        self.namespace = namespace or node.namespace
        self.folder = node.folder / name
        (self.container,) = spec["containers"]
        self.ports = {it["containerPort"]: free_port() for it in self.container.get("ports", ())}
        self.process, self.was_ended = None, False
        context = spec["securityContext"]
        if not context["runAsNonRoot"] or context["runAsUser"] == 0:
            raise Unknown(f"{name} runs as root")
        #: Only root can be somebody else.
        self.user = context["runAsUser"] if os.geteuid() == 0 else None

    def start(self, limit=None):
        """Starts it; with a limit, waits for its end and gives the exit code."""
        for it in self.spec.get("volumes", ()):
            if "emptyDir" in it:
                shutil.rmtree(self.folder / "volumes" / it["name"], ignore_errors=True)
        for it in self.spec.get("initContainers", ()):
            process = self._begin(it)
            if (code := waited(process, limit or 60)) != 0:
                return code
        self.process = self._begin(self.container)
        return waited(self.process, limit) if limit else None

    def is_ready(self):
        probe = self.container.get("readinessProbe")
        if probe is None:
            return True
        named = {it["name"]: it["containerPort"] for it in self.container["ports"]}
        port = probe["tcpSocket"]["port"]
        try:
            socket.create_connection(("127.0.0.1", self.ports[named.get(port, port)]), 1).close()
        except OSError:
            return False
        return True

    def end(self):
        """Ends it as a kubelet does: hook, SIGTERM, and SIGKILL when its time is over. The exit code, and
        nothing where it had to be killed."""
        self.was_ended = True
        limit = time.monotonic() + self.spec["terminationGracePeriodSeconds"]
        if hook := self.container.get("lifecycle", {}).get("preStop"):
            waited(self._begin(self.container, hook["exec"]["command"]), limit - time.monotonic())
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return waited(self.process, max(limit - time.monotonic(), 0.1))

    def kill(self):
        if self.process:
            stop(self.process)
            self.process.wait()

    def said(self):
        """What its containers wrote."""
        logs = sorted(self.folder.glob("*.log"), key=lambda log: log.stat().st_mtime)
        return "".join(log.read_text(errors="replace") for log in logs).strip()

    def _begin(self, it, command=None):
        """Starts a container, or a command beside it."""
        context = it["securityContext"]
        if context["allowPrivilegeEscalation"] or not context["readOnlyRootFilesystem"]:
            raise Unknown(f"{self.name}: {it['name']} is not confined")
        paths = {IMAGE: self.node.image / IMAGE[1:]}
        for mount in it.get("volumeMounts", ()):
            paths[mount["mountPath"]] = self._volume_folder(it, mount["name"])
        here = self._translator(paths)
        for mount in it.get("volumeMounts", ()):
            self._fill(paths[mount["mountPath"]], mount["name"], here)
        variables = {}
        for entry in it.get("env", ()):
            # A value may name the variables before it.
            named = re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), self._value(entry))
            variables[entry["name"]] = here(named)
        words = command or [*it["command"], *it.get("args", ())]
        words = [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], here(str(word))) for word in words]
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {"PATH": f"{self.node.image}{IMAGE}/bin:/usr/bin:/bin", "HOME": "/", **variables,
                       "TMPDIR": str(self.folder / "no-such-folder")}
        with (self.folder / f"{it['name']}.log").open("a") as log:
            return subprocess.Popen(words, cwd="/", env=environment, stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, start_new_session=True, user=self.user,
                                    group=self.user, extra_groups=None if self.user is None else [])

    def _value(self, entry):
        if "value" in entry:
            return entry["value"]
        path = entry["valueFrom"]["fieldRef"]["fieldPath"]
        if path == "metadata.name":
            return self.name
        if path == "metadata.namespace":
            return self.namespace
        if path == "spec.nodeName":
            return NODE
        if label := re.fullmatch(r"metadata\.labels\['(.+)'\]", path):
            return self.labels[label[1]]
        raise Unknown(f"{self.name}: {path}")

    def _translator(self, paths):
        """What a text of a container says of its paths, of pods and of its own ports, said of this machine."""
        places = {path: str(folder) for path, folder in paths.items()}
        known = [(re.compile(alternatives(self.node.names) + r"(?!\d)"), self.node.names),
                 (re.compile(rf"(?<![\w/-]){alternatives(places)}(?![\w-])"), places)]
        own = re.compile(r"(?m)(?<=\bport: )\d+$")

        def here(text):
            for pattern, table in known:
                text = pattern.sub(lambda found: table[found[0]], text)
            return own.sub(lambda port: str(self.ports.get(int(port[0]), port[0])), text)
        return here

    def _volume(self, name):
        found = next((it for it in self.spec.get("volumes", ()) if it["name"] == name), None)
        if found is None:
            raise Unknown(f"{self.name}: there is no volume {name}")
        return found, "emptyDir" in found or "persistentVolumeClaim" in found

    def _volume_folder(self, it, name):
        """A volume's folder; of files that are made for a container by its paths, one for each."""
        _, shared = self._volume(name)
        return self.folder / ("volumes" if shared else f"files-{it['name']}") / name

    def _fill(self, folder, name, here):
        volume, shared = self._volume(name)
        folder.mkdir(parents=True, exist_ok=True)
        if shared:
            # An empty folder is everybody's to write, and a claim's its pod's group's.
            folder.chmod(0o777)
            return
        for source in volume["projected"]["sources"] if "projected" in volume else [volume]:
            for path, text in self._files(source).items():
                (folder / path).write_text(here(text))
                (folder / path).chmod(0o644)

    def _files(self, source):
        """The files of a ConfigMap or Secret that a volume takes."""
        if "configMap" in source:
            which, kind, name = source["configMap"], "ConfigMap", source["configMap"]["name"]
        elif "secret" in source:
            which, kind = source["secret"], "Secret"
            name = which.get("secretName") or which["name"]
        else:
            raise Unknown(f"{self.name}: a volume of {', '.join(source)}")
        there = self.node.data.get((kind, self.namespace, name))
        if there is None:
            raise Unknown(f"{self.name}: there is no {kind} {name} in {self.namespace}")
        items = which.get("items") or [{"key": key, "path": key} for key in there]
        return {it["path"]: there[it["key"]] for it in items}


def image(folder, containerfile, files):
    """A folder with what a Containerfile copies into its last image; `files` has each by its place there."""
    last = containerfile.read_text().split("\nFROM ")[-1]
    copied = re.findall(r"^COPY --from=build \S+ (\S+)$", last, flags=re.M)
    if set(copied) != set(files):
        raise Unknown(f"{containerfile.name} copies {', '.join(copied)}")
    for place, source in files.items():
        path = folder / place.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, path)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    return folder


def alternatives(words):
    """A pattern of any of these words, the longest first."""
    return f"(?:{'|'.join(sorted(map(re.escape, words), key=len, reverse=True)) or '(?!)'})"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def waited(process, limit):
    """The exit code of a process that ends in so many seconds, and nothing of one that has to be killed."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        stop(process)
        process.wait()
        return None


def stop(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
