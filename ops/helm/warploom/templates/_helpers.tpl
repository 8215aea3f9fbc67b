{{/* What the release's objects are called. Names of pods have 63 characters, and theirs are longer. */}}
{{- define "warploom.name" -}}
{{- $name := ternary .Release.Name (printf "%s-warploom" .Release.Name) (contains "warploom" .Release.Name) -}}
{{- $name | trunc 30 | trimSuffix "-" -}}
{{- end }}

{{/* What a part's pods are chosen by. Takes a list: the root, the part. */}}
{{- define "warploom.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: warploom
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "warploom.labels" -}}
{{- $root := index . 0 -}}
{{ include "warploom.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- define "warploom.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* What every pod's specification has. */}}
{{- define "warploom.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "warploom.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Pods of a part are on different nodes where they can be. */}}
{{- define "warploom.apart" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "warploom.selector" . | nindent 8 }}
{{- end }}

{{- define "warploom.placed" -}}
{{- with .nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end }}

{{/* The Secret with the logins of nats-server and of leaders and workers. */}}
{{- define "warploom.secret" -}}
{{- .Values.auth.existingSecret | default (printf "%s-broker" (include "warploom.name" .)) -}}
{{- end }}

{{/* Where the servers are: each by its own name, for a client of several leaves one that stands still. */}}
{{- define "warploom.url" -}}
{{- $urls := list -}}
{{- $name := include "warploom.name" . -}}
{{- range until (int .Values.broker.replicas) -}}
{{- $urls = append $urls (printf "nats://%s-broker-%d.%s-broker.%s.svc:4222" $name . $name $.Release.Namespace) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end }}

{{/* Settings as lines of warploom.toml. */}}
{{- define "warploom.settings" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ toString $value | quote }}
{{- end }}
{{- end }}

{{/* Changes where a role has to start anew: its settings, and which servers there are. */}}
{{- define "warploom.config-checksum" -}}
{{- $root := index . 0 -}}
checksum/config: {{ list (include "warploom.url" $root) $root.Values.cluster (index . 1) | toJson | sha256sum }}
{{- end }}

{{/* A role reads its login from a file of its own only, and a Secret's files are not: they are root's, or the
group's. So it is copied. */}}
{{- define "warploom.login" -}}
- name: login
  {{- include "warploom.image" . | nindent 2 }}
  command: [install, -m, "0600", /etc/warploom/login/credentials.toml, /run/warploom/credentials.toml]
  securityContext: {{- include "warploom.confined" . | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
  volumeMounts:
    - {name: login, mountPath: /etc/warploom/login, readOnly: true}
    - {name: run, mountPath: /run/warploom}
{{- end }}

{{/* Attributes of telemetry: the pod, by OpenTelemetry's names. Roles have them where a collector is given. */}}
{{- define "warploom.where" -}}
- name: K8S_NODE
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: K8S_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: K8S_POD
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.node.name=$(K8S_NODE),k8s.namespace.name=$(K8S_NAMESPACE),k8s.pod.name=$(K8S_POD)
{{- end }}

{{- define "warploom.login-volumes" -}}
- name: login
  secret:
    secretName: {{ include "warploom.secret" . }}
    items: [{key: credentials.toml, path: credentials.toml}]
- name: run
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}
