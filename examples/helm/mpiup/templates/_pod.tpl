{{/*
What all pods have, of the pod. It is called with a dict: root (the chart's), with (the values of launcher or workers) and shm (whether
ranks run in the pod).
*/}}
{{- define "mpiup.pod" -}}
securityContext:
  runAsNonRoot: true
  seccompProfile: {type: RuntimeDefault}
  {{- with .root.Values.podSecurityContext }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ .root.Values.grace }}
{{- with .root.Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .with.nodeSelector | default .root.Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .with.tolerations | default .root.Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .with.affinity | default .root.Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- $shm := and .shm .root.Values.shm }}
{{- if or .root.Values.hardened $shm .root.Values.volumes }}
volumes:
{{- if .root.Values.hardened }}
- {name: tmp, emptyDir: {}}
{{- end }}
{{- if $shm }}
- {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ .root.Values.shm }}}}
{{- end }}
{{- range .root.Values.volumes }}
- {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The pod template's metadata, where there is any. */}}
{{- define "mpiup.metadata" -}}
{{- with .with.labels | default .root.Values.labels }}
labels: {{ toJson . }}
{{- end }}
{{- with .with.annotations | default .root.Values.annotations }}
annotations: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* And of the container. run: mpiup run is started in it. */}}
{{- define "mpiup.container" -}}
{{- $shm := and .shm .root.Values.shm -}}
ports: [{{ if .run }}{name: mpiup-run, containerPort: 7613}{{ else }}{name: mpiup-http, containerPort: 7612}{{ end }}]
{{- with .root.Values.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
env:
- {name: MPIUP_POD_GRACE, value: {{ .root.Values.grace | quote }}}
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
{{- if .run }}
- {name: MPIUP_METRICS, value: ":7613"}
{{- if and .root.Values.networkPolicy.enabled .root.Values.networkPolicy.mpiPorts }}
- {name: MPIUP_MPI_PORTS, value: {{ .root.Values.networkPolicy.mpiPorts | quote }}}
{{- end }}
{{- end }}
{{- if .root.Values.gpuMetrics }}
- {name: MPIUP_GPU_METRICS, value: {{ .root.Values.gpuMetrics | quote }}}
{{- end }}
{{- range concat .root.Values.env (.with.env | default list) }}
- {{ toJson . }}
{{- end }}
{{- with .with.resources }}
resources: {{ toJson . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  {{- if .root.Values.hardened }}
  readOnlyRootFilesystem: true
  {{- end }}
{{- if or .root.Values.hardened $shm .root.Values.volumeMounts }}
volumeMounts:
{{- if .root.Values.hardened }}
- {name: tmp, mountPath: /tmp}
{{- end }}
{{- if $shm }}
- {name: shm, mountPath: /dev/shm}
{{- end }}
{{- range .root.Values.volumeMounts }}
- {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* And of an agent's. */}}
{{- define "mpiup.agent" -}}
{{ include "mpiup.container" . }}
command: [mpiup, agent{{ if .root.Values.hardened }}, --deny, "exec,shell"{{ end }}]
readinessProbe:
  httpGet: {path: /readyz, port: mpiup-http}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 15
{{- end -}}
