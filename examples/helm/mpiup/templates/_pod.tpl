{{/* What all pods have, of the pod. */}}
{{- define "mpiup.pod" -}}
securityContext:
  fsGroup: {{ .Values.user }}
  runAsNonRoot: true
  runAsUser: {{ .Values.user }}
  seccompProfile: {type: RuntimeDefault}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ .Values.grace }}
{{- if .Values.hardened }}
volumes:
- {name: tmp, emptyDir: {}}
{{- end }}
{{- end -}}

{{/* And of the container. */}}
{{- define "mpiup.container" -}}
env:
- {name: MPIUP_POD_GRACE, value: {{ .Values.grace | quote }}}
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
{{- if .Values.gpuMetrics }}
- {name: MPIUP_GPU_METRICS, value: {{ .Values.gpuMetrics | quote }}}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  {{- if .Values.hardened }}
  readOnlyRootFilesystem: true
  {{- end }}
{{- if .Values.hardened }}
volumeMounts:
- {name: tmp, mountPath: /tmp}
{{- end }}
{{- end -}}

{{/* And of an agent's. */}}
{{- define "mpiup.agent" -}}
{{ include "mpiup.container" . }}
command: [mpiup, agent{{ if .Values.hardened }}, --deny, "exec,shell"{{ end }}]
readinessProbe:
  httpGet: {path: /readyz, port: mpiup-http}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 15
{{- end -}}
