# shellcheck shell=bash disable=SC2154
# Runs the tests on a control plane, in a namespace of their own, and prints a line for each: ID STATUS SECONDS TEXT.
# Settings are in the environment. A test that fails does not end the others.
set -u
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
exec 3>&1 2>"$work/errors"

access=(--kubeconfig="$KUBE_CONFIG_DIR/admin.conf" --server="https://$API_SERVER")
kube() { "$BIN_DIR/kubectl" "${access[@]}" --request-timeout=30s "$@"; }
k() { kube --namespace="$NAMESPACE" "$@"; }
# A manifest on standard input. kubectl takes whatever begins with a brace for JSON.
apply() { { echo '# YAML'; cat; } | k apply --filename=- >/dev/null; }
field() { k get "$1" --output="jsonpath=$2"; }

# eventually COMMAND...: until it succeeds
eventually() {
  local deadline=$((SECONDS + TEST_TIMEOUT))
  until "$@"; do
    [ $SECONDS -lt $deadline ] || { echo "not within $TEST_TIMEOUT seconds: $*" >&2; return 1; }
    sleep 0.5
  done
}
not() { ! "$@"; }
same() { [ "$(eval "$1")" = "$2" ]; }
rolled() { k rollout status "$1" --timeout="${TEST_TIMEOUT}s" >/dev/null; }
waited() { k wait "$1" "--for=$2" --timeout="${TEST_TIMEOUT}s" >/dev/null; }
answers() { curl -sf -m 3 -o /dev/null "http://$1/health"; }
# wrapped ADDRESS: as it stands in a URL
wrapped() { case $1 in *:*) echo "[$1]" ;; *) echo "$1" ;; esac; }
# refused TEXT COMMAND...: the API refuses it with a message that has the text
refused() {
  local text=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "accepted, although it has to be refused: $*" >&2
    return 1
  fi
  grep -qi -- "$text" <<<"$output" || { echo "$output" >&2; return 1; }
}
skip() { echo "$*" >"$work/skip"; }

# pod NAME IMAGE [LINE...]: a pod on this node; further lines belong to its container
pod() {
  local name=$1 image=$2
  shift 2
  cat <<END
apiVersion: v1
kind: Pod
metadata: {name: $name, labels: {app: $name}}
spec:
  nodeName: $NODE
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers:
    - name: main
      image: $image
      imagePullPolicy: $PULL_POLICY
END
  [ $# = 0 ] || printf '      %s\n' "$@"
}
# server NAME [LINE...]: likewise, a pod that answers at /health
server() {
  pod "$1" "$IMAGE" "args: $IMAGE_ARGS" 'volumeMounts: [{name: server, mountPath: /etc/conformance}]' "${@:2}"
  echo '  volumes: [{name: server, configMap: {name: server}}]'
}

# template APP IMAGE ARGS: of the pods of a controller
template() {
  cat <<END
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations:
        - {key: node-role.kubernetes.io/control-plane, operator: Exists}
        - {key: node-role.kubernetes.io/master, operator: Exists}
      containers:
        - name: main
          image: $2
          imagePullPolicy: $PULL_POLICY
          args: $3
          env: [{name: MARK, value: "one"}]
          volumeMounts: [{name: server, mountPath: /etc/conformance}]
      volumes: [{name: server, configMap: {name: server}}]
END
}
deployment() { # deployment NAME REPLICAS
  printf 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n  replicas: %s\n' "$1" "$2"
  template "$1" "$IMAGE" "$IMAGE_ARGS"
}

# process POD: the main process of a pod of this node
process() {
  local uid found
  uid=$(field "pod/$1" '{.metadata.uid}')
  [ -n "$uid" ] || return 1
  # Drivers of control groups write the uid with dashes or with underscores. The sandbox's process is left out.
  for found in $(grep -lE "${uid//-/[-_]}" /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3); do
    [ "$(cat "/proc/$found/comm")" = pause ] || { echo "$found"; return; }
  done
  return 1
}

test_apis() {
  local names
  names=$(kube api-resources --verbs=list --output=name | sort -u | tr '\n' ,)
  kube get "${names%,}" --all-namespaces --output=name >"$work/listed" &&
    tr ',' '\n' <<<"${names%,}" | wc -l | sed 's/$/ kinds are listed/'
}
# Of each kind that users may create, an object with the name `kinds`: one of a namespace is written, read and deleted,
# and of the others the API server only validates one.
test_kinds() {
  local resource version namespaced kind fields dry tried=0 without='' failed=''
  while read -r resource version namespaced kind; do
    fields=$(sed -n "s/^$kind //p" <<<"$KINDS")
    # These have the same objects as another group.
    case $version in extensions/v1beta1 | events.k8s.io/*) continue ;; esac
    [ -n "$fields" ] || { without+=" $kind"; continue; }
    fields=${fields//NAMESPACE/$NAMESPACE} dry=()
    [ "$namespaced" = true ] || dry=(--dry-run=server)
    tried=$((tried + 1))
    k create "${dry[@]}" --filename=- >/dev/null <<END || { failed+=" $kind ($version)"; continue; }
# YAML
{apiVersion: $version, kind: $kind, metadata: {name: kinds}, ${fields//IMAGE/$PAUSE_IMAGE}}
END
    [ "$namespaced" = false ] || { k get "$resource" kinds --output=name &&
        k delete "$resource" kinds --wait=false; } >/dev/null ||
      failed+=" $kind ($version)"
  done < <(kube api-resources --verbs=create,get,delete --no-headers |
    awk '{ group = $(NF - 2); sub("/?[^/]*$", "", group); print $1 (group == "" ? "" : "." group), $(NF - 2), $(NF - 1), $NF }')
  [ -z "$failed" ] || { echo "none of$failed: $(grep . "$work/errors" | tail -n 1)" >&2; return 1; }
  [ $tried -gt 20 ] && echo "$tried kinds; without an example:${without:- none}"
}
test_objects() {
  k create configmap object --from-literal=key=one >/dev/null &&
    k patch configmap object --patch '{"data": {"key": "two"}}' >/dev/null &&
    same 'field configmap/object {.data.key}' two &&
    k label configmap object color=red >/dev/null &&
    [ "$(k get configmaps --selector=color=red --output=name)" = configmap/object ] &&
    refused 'immutable\|Invalid\|invalid' k create configmap 'Not Valid' &&
    refused 'not found' kube --namespace="$NAMESPACE-missing" create configmap object &&
    k delete configmap object >/dev/null && not k get configmap object
}
test_watch() {
  timeout 20 "$BIN_DIR/kubectl" "${access[@]}" --namespace="$NAMESPACE" \
    get configmaps --watch --output=name >"$work/watched" &
  local watcher=$!
  sleep 1
  k create configmap watched --from-literal=key=value >/dev/null
  eventually grep -q configmap/watched "$work/watched"
  local code=$?
  kill $watcher
  return $code
}
test_definitions() {
  cat <<END | kube apply --filename=- >/dev/null || return
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: smokes.$NAMESPACE.windlass}
spec:
  group: $NAMESPACE.windlass
  scope: Namespaced
  names: {plural: smokes, singular: smoke, kind: Smoke}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {count: {type: integer, minimum: 1}}}}
END
  kube wait "crd/smokes.$NAMESPACE.windlass" --for=condition=Established --timeout=30s >/dev/null || return
  custom() { # custom COUNT
    apply <<<"{apiVersion: $NAMESPACE.windlass/v1, kind: Smoke, metadata: {name: one}, spec: {count: $1}}"
  }
  eventually custom 1 >/dev/null && refused 'greater than or equal to 1' custom 0 &&
    k delete "smokes.$NAMESPACE.windlass" one >/dev/null
}
test_settings() {
  k create configmap settings --from-literal=key=from-the-map >/dev/null &&
    k create secret generic secret --from-literal=key=from-the-secret >/dev/null || return
  { pod settings "$IMAGE" "args: $IMAGE_ARGS" 'env: [' \
    '      {name: FROM_MAP, valueFrom: {configMapKeyRef: {name: settings, key: key}}},' \
    '      {name: FROM_SECRET, valueFrom: {secretKeyRef: {name: secret, key: key}}},' \
    '      {name: FROM_POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]' \
    'volumeMounts: [{name: map, mountPath: /mnt/map}, {name: secret, mountPath: /mnt/secret},' \
    '      {name: empty, mountPath: /mnt/empty}, {name: server, mountPath: /etc/conformance}]'
    echo '  volumes: [{name: map, configMap: {name: settings}}, {name: secret, secret: {secretName: secret}},'
    echo '    {name: empty, emptyDir: {}}, {name: server, configMap: {name: server}}]'
  } | apply && waited pod/settings condition=Ready || return
  local main
  main=$(process settings) && tr '\0' '\n' <"/proc/$main/environ" >"$work/environ" &&
    grep -qx FROM_MAP=from-the-map "$work/environ" && grep -qx FROM_SECRET=from-the-secret "$work/environ" &&
    grep -qx FROM_POD=settings "$work/environ" && [ "$(cat "/proc/$main/root/mnt/map/key")" = from-the-map ] &&
    [ "$(cat "/proc/$main/root/mnt/secret/key")" = from-the-secret ] && [ -d "/proc/$main/root/mnt/empty" ]
}
test_tokens() {
  k create serviceaccount reader >/dev/null && k create role reader --verb=get,list --resource=pods >/dev/null &&
    k create rolebinding reader --role=reader --serviceaccount="$NAMESPACE:reader" >/dev/null &&
    { server token; echo '  serviceAccountName: reader'; } | apply && waited pod/token condition=Ready || return
  local main token
  main=$(process token) && token=$(cat "/proc/$main/root/var/run/secrets/kubernetes.io/serviceaccount/token") || return
  ask() { # ask RESOURCE: the status of a request for it
    curl -sk -m 5 -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $token" \
      "https://$API_SERVER/api/v1/namespaces/$NAMESPACE/$1"
  }
  eventually same 'ask pods' 200 && same 'ask secrets' 403
}
test_rbac() {
  local account=system:serviceaccount:$NAMESPACE:nobody
  k create serviceaccount nobody >/dev/null && refused forbidden k --as="$account" get pods &&
    k create role nobody --verb=list --resource=pods >/dev/null &&
    k create rolebinding nobody --role=nobody --serviceaccount="$NAMESPACE:nobody" >/dev/null &&
    eventually k --as="$account" get pods --output=name >/dev/null && refused forbidden k --as="$account" get secrets
}
test_deployment() {
  deployment web 2 | apply && rolled deployment/web || return
  local before
  before=$(k get pods --selector=app=web --output=name | head -n 1)
  k delete "$before" --wait=false >/dev/null && rolled deployment/web &&
    eventually same 'field deployment/web {.status.readyReplicas}' 2 || return
  k set env deployment/web MARK=two >/dev/null && rolled deployment/web &&
    k rollout undo deployment/web >/dev/null && rolled deployment/web &&
    same 'field deployment/web {.spec.template.spec.containers[0].env[0].value}' one &&
    k scale deployment/web --replicas=3 >/dev/null && eventually same 'field deployment/web {.status.readyReplicas}' 3
}
test_daemonset() {
  { printf 'apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: everywhere}\nspec:\n'
    template everywhere "$PAUSE_IMAGE" '[]'; } | apply || return
  ready_everywhere() {
    local ready wanted
    read -r ready wanted < <(field daemonset/everywhere '{.status.numberReady} {.status.desiredNumberScheduled}')
    [ "${ready:-0}" -gt 0 ] && [ "$ready" -ge $((wanted - UNREACHED)) ]
  }
  eventually ready_everywhere || return
  field daemonset/everywhere '{.status.numberReady} of {.status.desiredNumberScheduled} nodes'
}
test_statefulset() {
  { printf 'apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: ordered}\n'
    printf 'spec:\n  replicas: 2\n  serviceName: ordered\n'
    template ordered "$PAUSE_IMAGE" '[]'; } | apply && rolled statefulset/ordered || return
  local before after
  before=$(field pod/ordered-0 '{.metadata.uid}') && k delete pod/ordered-0 >/dev/null || return
  renewed() { after=$(field pod/ordered-0 '{.metadata.uid}') && [ -n "$after" ] && [ "$after" != "$before" ]; }
  eventually renewed && waited pod/ordered-0 condition=Ready && k get pod/ordered-1 >/dev/null
}
test_storage() {
  local class
  local fields='{.metadata.name} {.metadata.annotations.storageclass\.kubernetes\.io/is-default-class}'
  class=$(kube get storageclasses --output="jsonpath={range .items[*]}$fields{\"\\n\"}{end}" |
    awk '$2 == "true" { print $1; exit }')
  [ -n "$class" ] || { skip 'no StorageClass is the default'; return; }
  local spec='{accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}'
  apply <<<"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: claim}, spec: $spec}" &&
    { pod storing "$PAUSE_IMAGE" 'volumeMounts: [{name: claim, mountPath: /mnt}]'
      echo '  volumes: [{name: claim, persistentVolumeClaim: {claimName: claim}}]'; } | apply &&
    waited pod/storing condition=Ready && same 'field pvc/claim {.status.phase}' Bound &&
    echo "by the StorageClass $class"
}
# static NUMBER HOST: a volume of the node with that label, whose folder goes with the script
static() {
  mkdir -p "$work/volume-$1" && cat <<END
apiVersion: v1
kind: PersistentVolume
metadata: {name: $NAMESPACE-$1}
spec:
  capacity: {storage: 16Mi}
  accessModes: [ReadWriteOnce]
  storageClassName: $NAMESPACE
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: $work/volume-$1, type: Directory}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: ["$2"]}]}]}
---
END
}
# Each pod of a StatefulSet has a volume of its own, which stays with its name when the pod is replaced or scaled away.
test_volumes() {
  local number main host
  host=$(kube get node "$NODE" --output='jsonpath={.metadata.labels.kubernetes\.io/hostname}') || return
  { static 0 "$host"; static 1 "$host"; } | kube apply --filename=- >/dev/null &&
    { printf 'apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: keeping}\n'
      printf 'spec:\n  replicas: 2\n  serviceName: keeping\n'
      template keeping "$IMAGE" "$IMAGE_ARGS" | sed 's/volumeMounts: \[/&{name: data, mountPath: \/mnt}, /'
      printf '  volumeClaimTemplates:\n    - metadata: {name: data}\n'
      printf '      spec: {accessModes: [ReadWriteOnce], storageClassName: %s, ' "$NAMESPACE"
      printf 'resources: {requests: {storage: 16Mi}}}\n'
    } | apply && rolled statefulset/keeping || return
  for number in 0 1; do
    main=$(process "keeping-$number") && echo "$number" >"/proc/$main/root/mnt/written" || return
  done
  [ "$(field pvc/data-keeping-0 '{.spec.volumeName}')" != "$(field pvc/data-keeping-1 '{.spec.volumeName}')" ] &&
    k delete pod/keeping-0 >/dev/null && k scale statefulset/keeping --replicas=1 >/dev/null &&
    eventually not k get pod/keeping-1 --output=name >/dev/null &&
        same 'field pvc/data-keeping-1 {.status.phase}' Bound &&
    k scale statefulset/keeping --replicas=2 >/dev/null && rolled statefulset/keeping || return
  for number in 0 1; do
    waited "pod/keeping-$number" condition=Ready && main=$(process "keeping-$number") &&
      [ "$(cat "/proc/$main/root/mnt/written")" = "$number" ] || return
  done
  k delete statefulset/keeping >/dev/null && k delete pvc data-keeping-0 data-keeping-1 >/dev/null &&
    kube delete persistentvolume "$NAMESPACE-0" "$NAMESPACE-1" >/dev/null
}
test_job() {
  k create job once --image="$COMMAND_IMAGE" --dry-run=client --output=json -- $COMMAND |
    sed "s/\"image\": \"[^\"]*\"/&, \"imagePullPolicy\": \"$PULL_POLICY\"/" | apply &&
      waited job/once condition=complete &&
    [ -n "$(k logs job/once)" ]
}
test_cronjob() {
  k create cronjob yearly --schedule='0 0 1 1 *' --image="$COMMAND_IMAGE" --dry-run=client --output=json -- $COMMAND |
    sed "s/\"image\": \"[^\"]*\"/&, \"imagePullPolicy\": \"$PULL_POLICY\"/" | apply &&
      k create job manual --from=cronjob/yearly >/dev/null &&
    waited job/manual condition=complete
}
test_init() {
  { pod prepared "$PAUSE_IMAGE"
    printf '  initContainers:\n    - {name: first, image: "%s", imagePullPolicy: %s, command: [%s]}\n' \
      "$COMMAND_IMAGE" "$PULL_POLICY" "${COMMAND// /, }"
  } | apply && waited pod/prepared condition=Ready &&
    same 'field pod/prepared {.status.initContainerStatuses[0].state.terminated.reason}' Completed
}
test_probes() {
  pod restarted "$PAUSE_IMAGE" 'livenessProbe: {tcpSocket: {port: 1}, periodSeconds: 1, failureThreshold: 1}' |
    apply || return
  restarts() { [ "$(field pod/restarted '{.status.containerStatuses[0].restartCount}')" -gt 0 ]; }
  eventually restarts && k delete pod/restarted --wait=false >/dev/null || return
  server unready "readinessProbe: {httpGet: {path: /health, port: 1}, periodSeconds: 1}" | apply &&
    eventually same 'field pod/unready {.status.phase}' Running || return
  same 'field pod/unready {.status.containerStatuses[0].ready}' false
}
service() { # service NAME TYPE [FIELDS]
  local spec="{type: $2, selector: {app: web}, ports: [{port: 80, targetPort: $IMAGE_PORT}]${3:-}}"
  apply <<<"{apiVersion: v1, kind: Service, metadata: {name: $1}, spec: $spec}"
}
test_clusterip() {
  service web ClusterIP && eventually answers "$(wrapped "$(field service/web '{.spec.clusterIP}')"):80" || return
  ready() { [ "$(field endpoints/web '{.subsets[*].addresses[*].ip}' | wc -w)" = "$1" ]; }
  eventually ready 3 && k scale deployment/web --replicas=1 >/dev/null && eventually ready 1
}
test_headless() {
  service headless ClusterIP ', clusterIP: None' && same 'field service/headless {.spec.clusterIP}' None || return
  named() { [ -n "$(field endpoints/headless '{.subsets[*].addresses[*].ip}')" ]; }
  eventually named
}
test_nodeport() {
  service port NodePort || return
  local port address
  port=$(field service/port '{.spec.ports[0].nodePort}')
  for address in $NODE_ADDRESSES; do eventually answers "$address:$port" || return; done
  echo "on $(wc -w <<<"$NODE_ADDRESSES") nodes"
}
test_loadbalancer() {
  service balanced LoadBalancer &&
    eventually answers "$NODE_ADDRESS:$(field service/balanced '{.spec.ports[0].nodePort}')" || return
  local address
  address=$(field service/balanced '{.status.loadBalancer.ingress[0].ip}')
  [ -n "$address" ] || { sleep 3; address=$(field service/balanced '{.status.loadBalancer.ingress[0].ip}'); }
  [ -n "$address" ] || { skip 'nothing hands out addresses; its node port answers'; return; }
  eventually answers "$(wrapped "$address"):80" && echo "at $address"
}
test_externalname() {
  local spec='{type: ExternalName, externalName: example.com}'
  apply <<<"{apiVersion: v1, kind: Service, metadata: {name: outside}, spec: $spec}" &&
    same 'field service/outside {.spec.externalName}' example.com &&
    [ -z "$(field service/outside '{.spec.clusterIP}')" ]
}
test_quota() {
  local spec='{limits: [{type: Container, defaultRequest: {cpu: 7m}}]}'
  k create quota few --hard=configmaps=1,count/secrets=100 >/dev/null || return
  counted() { [ -n "$(field quota/few '{.status.hard.configmaps}')" ]; }
  eventually counted && refused 'exceeded quota' k create configmap refused --from-literal=key=value &&
    k delete quota few >/dev/null &&
    apply <<<"{apiVersion: v1, kind: LimitRange, metadata: {name: limits}, spec: $spec}" || return
  pod limited "$PAUSE_IMAGE" | apply && same 'field pod/limited {.spec.containers[0].resources.requests.cpu}' 7m &&
    k delete limitrange limits >/dev/null
}
# No server answers the webhook, so its failurePolicy decides. And nothing is created in a namespace that ends.
test_admission() {
  webhook() { # webhook POLICY
    kube apply --filename=- >/dev/null <<END
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: $NAMESPACE}
webhooks:
  - name: nobody.$NAMESPACE.windlass
    clientConfig: {service: {name: nobody, namespace: $NAMESPACE}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
    objectSelector: {matchLabels: {admission: "$NAMESPACE"}}
    failurePolicy: $1
    sideEffects: None
    admissionReviewVersions: [v1]
    timeoutSeconds: 1
END
  }
  judged() {
    k create --filename=- >/dev/null <<END
apiVersion: v1
kind: ConfigMap
metadata: {generateName: judged-, labels: {admission: "$NAMESPACE"}}
END
  }
  local code
  webhook Fail && eventually refused 'failed calling webhook' judged 2>/dev/null && webhook Ignore && eventually judged
  code=$?
  kube delete validatingwebhookconfiguration "$NAMESPACE" >/dev/null
  [ $code = 0 ] && kube create namespace "$NAMESPACE-ends" >/dev/null || return
  kube --namespace="$NAMESPACE-ends" create --filename=- >/dev/null \
      <<<'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stays", "finalizers": ["windlass/stays"]}}' &&
    kube delete namespace "$NAMESPACE-ends" --wait=false >/dev/null &&
    refused 'being terminated' kube --namespace="$NAMESPACE-ends" create configmap late
  code=$?
  kube --namespace="$NAMESPACE-ends" patch configmap stays --type=merge --patch='{"metadata": {"finalizers": null}}' \
      >/dev/null
  return $code
}
test_exec() {
  pod running "$PAUSE_IMAGE" | apply && waited pod/running condition=Ready && k exec running -- /pause -v >/dev/null &&
    refused '' k exec running -- /no/such/program
}
test_logs() { k logs job/once >"$work/log" && [ -s "$work/log" ] && head -c 60 "$work/log" | head -n 1; }
test_portforward() {
  k --request-timeout=0 port-forward deployment/web ":$IMAGE_PORT" --address=127.0.0.1 >"$work/forward" &
  local forward=$! code port
  eventually grep -q '^Forwarding' "$work/forward"
  port=$(sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' "$work/forward" | head -n 1)
  eventually answers "127.0.0.1:$port"
  code=$?
  kill $forward
  return $code
}
test_eviction() {
  deployment kept 1 | apply && rolled deployment/kept &&
    k create poddisruptionbudget kept --selector=app=kept --min-available=1 >/dev/null || return
  observed() { [ "$(field poddisruptionbudget/kept '{.status.currentHealthy}')" = 1 ]; }
  local name
  name=$(field pods '{.items[?(@.metadata.labels.app=="kept")].metadata.name}')
  evict() {
    local version=policy/v1
    kube api-versions | grep -qx policy/v1 || version=policy/v1beta1
    printf '{"apiVersion": "%s", "kind": "Eviction", "metadata": {"name": "%s", "namespace": "%s"}}' \
      $version "$name" "$NAMESPACE" |
      kube create --raw "/api/v1/namespaces/$NAMESPACE/pods/$name/eviction" --filename=-
  }
  eventually observed && refused 'disruption budget' evict && k delete poddisruptionbudget kept >/dev/null &&
    eventually evict >/dev/null && eventually not k get pod "$name" --output=name >/dev/null
}
test_collection() {
  k delete deployment/kept >/dev/null || return
  # How fast pods end is kubelet's matter.
  gone() {
    [ -z "$(k get replicasets --selector=app=kept --output=name)" ] &&
      [ "$(k get pods --selector=app=kept --output='jsonpath={range .items[*]}{.metadata.deletionTimestamp}={end}' |
        tr '=' '\n' | grep -cx '')" = 0 ]
  }
  eventually gone
}
test_policy() {
  [ "$POLICIES" = yes ] || { skip 'the network has no NetworkPolicies'; return; }
  server client | apply && server guarded | apply && waited pod/client condition=Ready &&
    waited pod/guarded condition=Ready || return
  local main address spec='{podSelector: {matchLabels: {app: guarded}}, policyTypes: [Ingress]}'
  main=$(process client) && address=$(wrapped "$(field pod/guarded '{.status.podIP}')"):$IMAGE_PORT || return
  inside() { nsenter --target "$main" --net curl -sf -m 2 -o /dev/null "http://$address/health"; }
  eventually inside &&
    apply <<<"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: guard}, spec: $spec}" &&
    eventually not inside && k delete networkpolicy guard >/dev/null && eventually inside
}
test_autoscaling() {
  kube get apiservice v1beta1.metrics.k8s.io >/dev/null 2>&1 || { skip 'metrics-server is not installed'; return; }
  k autoscale deployment/web --min=1 --max=2 --cpu-percent=50 >/dev/null && eventually k top pods >/dev/null
}
test_ingress() {
  [ -n "$(kube get ingressclasses --output=name)" ] || { skip 'no IngressClass is installed'; return; }
  local spec='{defaultBackend: {service: {name: web, port: {number: 80}}}}'
  apply <<<"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: $spec}"
}

# The server of the default image only answers at /health with this.
k create configmap server --from-literal="Corefile=.:5353 {
    health :$IMAGE_PORT
}" >/dev/null

for test in $TESTS; do
  rm -f "$work/skip"
  : >"$work/errors"
  start=$EPOCHREALTIME
  status=pass
  text=$(test_"$test" 2>>"$work/errors") || { status=fail; text=$(grep . "$work/errors" | tail -n 1); }
  [ ! -e "$work/skip" ] || { status=skip; text=$(cat "$work/skip"); }
  text=$(tr -c '[:print:]' ' ' <<<"$text")
  took=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
  printf '%s %s %s %s\n' "$test" $status "$took" "${text:0:300}" >&3
done
