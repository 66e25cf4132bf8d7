{{- define "groupledger.warehouse" -}}
{{ .Values.warehouse.uri | default "/warehouse" }}
{{- end }}

{{- /* What both pods have: a user without rights, the settings, the warehouse. */ -}}
{{- define "groupledger.security" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "groupledger.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - name: GROUPLEDGER_WAREHOUSE
    value: {{ include "groupledger.warehouse" . | quote }}
  - name: GROUPLEDGER_CONF
    value: /etc/groupledger/ledger.yaml
  - name: GROUPLEDGER_CLUSTER
    value: {{ .Values.cluster | quote }}
{{- if .Values.secret }}
envFrom:
  - secretRef: {name: {{ .Values.secret | quote }}}
{{- end }}
{{- end }}

{{- /* Its scope is that of the chart, and `scratch`, what /tmp may hold. */ -}}
{{- define "groupledger.volumes" -}}
- name: settings
  configMap: {name: {{ .Release.Name }}-settings}
- name: scratch
  emptyDir: {sizeLimit: {{ .scratch | quote }}}
{{- if not .Values.warehouse.uri }}
- name: warehouse
  persistentVolumeClaim: {claimName: {{ .Release.Name }}-warehouse}
{{- end }}
{{- end }}

{{- define "groupledger.mounts" -}}
- {name: settings, mountPath: /etc/groupledger, readOnly: true}
- {name: scratch, mountPath: /tmp}
{{- end }}
