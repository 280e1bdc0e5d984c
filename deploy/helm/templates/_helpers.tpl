{{- define "itc.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "itc.selector" -}}
app.kubernetes.io/name: rabbitmq-itc
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "itc.labels" -}}
{{ include "itc.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "itc.secret" -}}
{{- .Values.existingSecret | default (include "itc.name" .) -}}
{{- end -}}

{{- define "itc.claim" -}}
accessModes: [{{ if eq .Values.store "sqlite" }}ReadWriteOnce{{ else }}ReadWriteMany{{ end }}]
{{- with .Values.storage.className }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .Values.storage.size }}}
{{- end -}}

{{- /* The pods of both workloads. */ -}}
{{- define "itc.pod" -}}
metadata:
  labels: {{- include "itc.labels" . | nindent 4 }}
  {{- if not .Values.existingSecret }}
  annotations: # other settings, other pods
    checksum/settings: {{ .Values.settings | toJson | sha256sum }}
  {{- end }}
spec:
  # Or a Service called "itc" would set ITC_PORT, which is a setting.
  enableServiceLinks: false
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 40 # longer than ITC_SHUTDOWN_SECONDS
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001 # Spark's JVM needs one that the image knows
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: rabbitmq-itc
      image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
      envFrom:
        - secretRef: {name: {{ include "itc.secret" . }}}
      env:
        # A folder that the service creates in the volume: others may not look into it.
        - {name: ITC_DATA_DIR, value: /var/lib/rabbitmq-itc/data}
        {{- if ne .Values.store "sqlite" }}
        - {name: ITC_EXPORT_DIR, value: /var/lib/rabbitmq-itc/shared/exports}
        - {name: ITC_ARCHIVE_DIR, value: /var/lib/rabbitmq-itc/shared/archives}
        {{- end }}
      ports:
        - {name: http, containerPort: 15680}
      startupProbe: # migrations of a large store take a while
        httpGet: {path: /health/live, port: http}
        periodSeconds: 5
        failureThreshold: 120
      livenessProbe:
        httpGet: {path: /health/live, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
      readinessProbe: # asks the broker and the database, for at most five seconds
        httpGet: {path: /health/ready, port: http}
        periodSeconds: 10
        timeoutSeconds: 7
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: data, mountPath: /var/lib/rabbitmq-itc}
        {{- if ne .Values.store "sqlite" }}
        - {name: shared, mountPath: /var/lib/rabbitmq-itc/shared}
        {{- end }}
        - {name: tmp, mountPath: /tmp}
  volumes:
    {{- if ne .Values.store "sqlite" }}
    - name: data
      emptyDir: {}
    - name: shared
      persistentVolumeClaim: {claimName: {{ include "itc.name" . }}}
    {{- end }}
    - name: tmp # Spark's
      emptyDir: {}
{{- end -}}
