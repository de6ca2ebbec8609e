# shellcheck shell=bash disable=SC2154
# The operations of tests/lab/operations that change settings of a running cluster. They use functions of operations.sh.

# ---- settings ----

# setting NAME SETTING...: cluster.yml applies it while a node asks the API, and a second run changes nothing. It overrides the
# lab's settings of the group k8s_cluster.
setting() {
  local name=$1; shift
  printf '%s\n' "$@" >"$inventory/group_vars/k8s_cluster/setting.yml"
  api_load node2
  holds "cluster.yml applies $name" run "$name.log" cluster
  api_load_ends node2 >"$operation/$name.load"
  awk 'NR == 1 { asked = $0 } END { print "          " NR - 1 " of " asked " requests lost" }' "$operation/$name.load"
  holds "few requests are lost by $name" few_lost "$operation/$name.load"
  holds "cluster.yml changes nothing after $name" unchanged cluster
}
# stored PREFIX: how etcd has every Secret
stored() {
  on node1 'set -a; . /etc/etcdctl.env; for key in $(etcdctl get --prefix /registry/secrets --keys-only); do etcdctl get --print-value-only "$key" | head -c 30 | tr -cd "[:print:]"; echo; done' >"$operation/secrets"
  [ -s "$operation/secrets" ] && ! grep -v "^$1" "$operation/secrets" && [ "$(kubectl node1 get secret kept -o 'jsonpath={.data.key}' | base64 -d)" = value ]
}
# audited RESOURCE: a control plane logs a request for it
audited() {
  local name=asked-$RANDOM node
  kubectl node1 get "$1" "$name" 2>/dev/null
  sleep 1
  for node in $nodes; do on "$node" "grep -c '/$1/$name' /var/log/kubernetes/audit/kube-apiserver-audit.log" && return; done
  return 1
}
# configz NODE PATTERN: kubelet runs with it
configz() { kubectl node1 get --raw "/api/v1/nodes/$1/proxy/configz" | grep -E "$2"; }
everywhere_configz() { local node; for node in $nodes; do configz "$node" "$1" || return 1; done; }
allocatable() { kubectl node1 get node node2 -o 'jsonpath={.status.allocatable.memory}' | tr -d Ki; }
reserved() { [ "$(allocatable)" -lt "$(cat "$operation/allocatable")" ]; }
has_mirror() { local node; for node in $nodes; do on "$node" 'grep -r mirror.example.com /etc/containerd/certs.d' || return 1; done; }
no_rules() { local node; for node in $nodes; do on "$node" '! iptables-save | grep -c KUBE-SVC' || return 1; done; }

operation_settings() {
  cluster three
  rm -f "$log/cluster"
  kubectl node1 create secret generic kept --from-literal=key=value >/dev/null
  local one two
  one=$(printf '1%.0s' {1..32}) two=$(printf '2%.0s' {1..32})
  setting audit 'kubernetes_audit: true'
  holds 'requests are in the audit log' eventually 60 audited secrets
  setting audit-policy 'kubernetes_audit: true' \
    'audit_policy_custom_rules: [{level: Metadata, resources: [{group: "", resources: [pods]}]}, {level: None}]'
  holds 'requests for pods are in the log' eventually 60 audited pods
  holds 'and for Secrets are not' not audited secrets
  allocatable >"$operation/allocatable"
  setting reserved 'kube_reserved: true' 'system_reserved: true' 'kube_memory_reserved: 512Mi'
  holds 'the nodes keep memory for themselves' eventually 60 reserved
  setting feature-gate 'kubelet_feature_gates: [CPUManager=true, CSIMigration=true]'
  holds 'kubelet has the feature gate' everywhere_configz '"CSIMigration":true'
  setting mirror 'containerd_registries_mirrors: [{prefix: docker.io, mirrors: [{host: "https://mirror.example.com", capabilities: [pull, resolve]}]}]'
  holds 'containerd has the mirror' has_mirror
  setting no-kube-proxy 'kube_proxy_remove: true'
  holds 'no rule of kube-proxy is left' no_rules
  setting kube-proxy 'kube_proxy_remove: false'
  holds 'the service answers on every node' eventually 60 answer_everywhere
  setting identity 'kube_encrypt_secret_data: true' 'kube_encryption_algorithm: identity' "kube_encrypt_token: '$one'"
  setting encryption 'kube_encrypt_secret_data: true' "kube_encrypt_token: '$one'"
  holds 'every Secret is encrypted' stored k8s:enc:secretbox
  setting second-key 'kube_encrypt_secret_data: true' "kube_encrypt_token: '$one'" "kube_encrypt_further_tokens: ['$two']"
  setting new-key 'kube_encrypt_secret_data: true' "kube_encrypt_token: '$two'" "kube_encrypt_further_tokens: ['$one']"
  setting one-key 'kube_encrypt_secret_data: true' "kube_encrypt_token: '$two'"
  holds 'every Secret is encrypted with the new key' stored k8s:enc:secretbox
  setting decryption 'kube_encrypt_secret_data: true' 'kube_encryption_algorithm: identity' "kube_encrypt_token: '$two'"
  holds 'no Secret is encrypted' stored k8s[^:]
  setting no-encryption 'kube_encrypt_secret_data: false'
}

# ---- nodes ----

# Nodes and processes of the pods of the service: they stay while the pods keep running.
hello_processes() { local node; for node in $nodes; do on "$node" 'hostname; pgrep -x hello' || return 1; done; }
same_processes() { hello_processes | diff "$operation/processes" -; }

marked() { kubectl node1 get nodes --selector "$1" --no-headers | grep -c . | grep -x "${2:-2}"; }
# Marks that the inventory has not had belong to somebody else.
only_own_marks_left() {
  marked 'disk=ssd,own=mark,!rack' && kubectl node1 get nodes -o 'jsonpath={.items[*].metadata.annotations}' | not grep example.com/owner &&
    kubectl node1 get nodes -o 'jsonpath={.items[*].spec.taints}' | not grep dedicated
}
containerd_has() { local node; for node in $nodes; do on "$node" "tr '\\0' '\\n' </proc/\$(pgrep -o -x containerd)/environ | grep -x '$1'" || return 1; done; }

# pods_ask SERVER: pods that start now ask it for names
pods_ask() {
  local node
  kubectl node1 rollout restart deployment/hello && kubectl node1 rollout status deployment/hello --timeout 120s || return 1
  for node in $nodes; do
    on "$node" "for pod in \$(pgrep -x hello); do cat /proc/\$pod/root/etc/resolv.conf; done" >"$operation/resolv.$node"
    grep "^nameserver $1" "$operation/resolv.$node" || { cat "$operation/resolv.$node"; return 1; }
  done
}
hosts_ask() { local node; for node in $nodes; do on "$node" "grep '^nameserver $1' /etc/resolv.conf && grep 'ndots:3' /etc/resolv.conf" || return 1; done; }
proxies_have() { local node; for node in $nodes; do on "$node" "curl -s 127.0.0.1:10249/configz | grep -iF '$1'" || return 1; done; }
# The lab's kernel may have no ip_vs.
without_ipvs() { on node1 '! modprobe ip_vs 2>/dev/null && ! test -e /proc/net/ip_vs'; }

ranges() { kubectl node1 get nodes -o 'jsonpath={.items[*].spec.podCIDR}' | tr ' ' '\n' | sed 's|.*/||' | xargs; }
ranges_are() { ranges; [ "$(ranges)" = "$*" ]; }

# moves_to ADDRESS: the worker has it beside the old one
moves_to() { on node2 "ip address add $1/24 dev host0" && sed -i "/^ *node2:/s/ ip: [0-9.]*}/ ip: $1}/" "$inventory/hosts.yml"; }
# The API server reaches kubelet at the address, and the other node the pods.
reached_at() {
  [ "$(kubectl node1 get node node2 -o "'jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}'")" = "$1" ] &&
    on node1 ip route | grep "via $1 " && kubectl node1 get --raw /api/v1/nodes/node2/proxy/healthz
}

operation_nodes() {
  local address
  cluster two
  rm -f "$log/cluster"
  kubectl node1 label nodes --all own=mark >/dev/null
  setting marks 'node_labels: {disk: ssd, rack: "7"}' 'node_annotations: {example.com/owner: ops}' 'node_taints: ["dedicated=batch:PreferNoSchedule"]'
  holds 'the nodes have the labels' marked 'disk=ssd,rack=7'
  setting fewer-marks 'node_labels: {disk: ssd}'
  holds 'labels, annotations and taints that left the inventory are gone' only_own_marks_left
  hello_processes >"$operation/processes"
  setting proxy 'http_proxy: "http://proxy.example.com:3128"' 'additional_no_proxy: internal.example.com'
  holds 'containerd has the proxy' containerd_has 'HTTP_PROXY=http://proxy.example.com:3128'
  setting no-proxy
  holds 'and no longer has it' not containerd_has 'HTTP_PROXY=.*'
  holds 'pods ran on meanwhile' same_processes
  setting dns 'dns_mode: manual' 'manual_dns_server: 192.0.2.53' 'resolvconf_mode: host_resolvconf' 'ndots: 3'
  holds 'new pods ask the DNS of the inventory' pods_ask 192.0.2.53
  holds 'and so do the hosts' hosts_ask 192.0.2.53
  setting no-dns
  holds 'the hosts do not any more' not hosts_ask 192.0.2.53
  setting kube-proxy-options 'kube_proxy_sync_period: 20s' 'kube_proxy_nodeport_addresses: [127.0.0.0/8]'
  holds 'kube-proxy has the options' proxies_have '"nodePortAddresses":["127.0.0.0/8"]'
  ! without_ipvs 2>/dev/null || holds 'a mode that the kernel lacks is refused' refused ipvs.log 'ip_vs' cluster -e kube_proxy_mode=ipvs
  holds 'the service answers on every node' answer_everywhere
  hello_processes >"$operation/processes"
  address=$(address node1 | sed 's/[0-9]*$/200/')
  holds 'the worker gets another address' moves_to "$address"
  setting address
  holds 'the node is reached there' reached_at "$address"
  holds 'its pods ran on' same_processes
  holds 'the service answers on every node there' answer_everywhere
  # The nodes keep their ranges, which have 253 addresses for pods.
  setting mask 'kube_network_node_prefix: 26' 'kubelet_max_pods: 62'
  holds 'more pods than the pod CIDR of a node has addresses are refused' refused pods.log \
    'kubelet_max_pods is 254, but the pod CIDR of node1 (/24) has only 253' cluster -e kube_network_node_prefix=23 -e kubelet_max_pods=254
  setting mask 'kube_network_node_prefix: 25'
  holds 'the nodes keep their ranges' ranges_are 24 24
  holds 'replace_node.yml joins the worker again' run replace.log replace_node -e node=node2 -e skip_confirmation=true -e drain_grace_period=5
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'the pod CIDR of the new node is smaller' ranges_are 24 25
  holds 'the Deployment answers on every node' deployment
  holds 'cluster.yml changes nothing after all' unchanged cluster
}

# ---- own-authorities ----

# own NAME OPTION...: an authority of ours, or one below it
own() {
  local name=$1; shift
  openssl req -x509 -newkey "${2:-rsa:2048}" ${2:+-pkeyopt ec_paramgen_curve:P-256} -nodes -days 3650 -subj "/CN=own-$name" \
    -addext keyUsage=critical,keyCertSign,cRLSign -keyout "$operation/$name.key" -out "$operation/$name.crt" ${1:+-CA "$1.crt" -CAkey "$1.key"}
}
authorities_made() { own root && own ca "$operation/root" && own front-proxy-ca && own etcd-ca '' ec; }
# own_authorities CA: settings that name them, with that certificate of `ca`
own_authorities() {
  local name
  echo certificates_own_authorities:
  for name in ca front-proxy-ca etcd-ca; do echo "  $name: {certificate: $operation/$name.crt, key: $operation/$name.key}"; done |
    sed "s|$operation/ca.crt|$operation/$1.crt|"
}
has_authorities() {
  on node1 cat /etc/kubernetes/ssl/ca.crt | cmp - "$operation/ca.crt" && on node1 cat /etc/kubernetes/ssl/ca.key | cmp - "$operation/ca.key" &&
    on node1 cat /etc/kubernetes/ssl/front-proxy-ca.crt | cmp - "$operation/front-proxy-ca.crt" &&
    on node1 cat /etc/ssl/etcd/ssl/ca.pem | cmp - "$operation/etcd-ca.crt" &&
    [ "$(on node1 'stat -c %a /etc/kubernetes/ssl/ca.key /etc/ssl/etcd/ssl/ca-key.pem' | xargs)" = '600 600' ]
}

operation_own_authorities() {
  local nodes='node1 node2' inventory=$log/own
  holds '2 hosts start' hosts_up 2
  grouped "$inventory" node1 node1 "$nodes"
  holds 'their settings' settings
  holds 'authorities of our own, one of them below another' authorities_made
  own_authorities root >"$inventory/group_vars/all/authorities.yml"
  holds 'a key of another authority is refused' refused refused.log 'The key of .ca. is not that of its certificate' cluster
  own_authorities ca >"$inventory/group_vars/all/authorities.yml"
  holds '--check of a cluster with them' run check.log cluster --check
  holds 'it left the hosts bare' still_bare
  holds 'cluster.yml makes a cluster with them' run cluster.log cluster
  holds 'it has our authorities' has_authorities
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'a Deployment answers on every node' deployment
  holds 'the report of certificates has no failure' run report.log certificates
  holds 'nothing is to be rotated' unchanged certificates --tags rotate
  holds 'cluster.yml changes nothing' unchanged cluster
}
