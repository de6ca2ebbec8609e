#!/bin/sh
# Prints a line for each observation of this host, KEY BASE64, and changes nothing.
set -u
export LC_ALL=C PATH="$PATH:/usr/local/bin:/usr/bin:/opt/bin"

# say KEY [BYTES]: its value from standard input, up to 256 KiB
say() { printf '%s %s\n' "$1" "$(head -c "${2:-262144}" | base64 | tr -d '\n')"; }
# arguments PROGRAM: arguments of its oldest process, one a line
arguments() { pid=$(pgrep -x -o "$1") && tr '\0' '\n' <"/proc/$pid/cmdline"; }
# flag NAME: its value among arguments, one a line
flag() { sed -n "s/^--$1=//p" | head -n 1; }
# version COMMAND...: the first version in what it prints
version() { "$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1; }
# limits SERVICE: the limits in its unit, without limits of drop-ins
limits() {
    unit=$(systemctl show --property=FragmentPath --value "$1" 2>/dev/null)
    [ ! -f "$unit" ] || grep -E '^(Slice|Memory(Max|High|Limit)|(Block)?IOWeight|CPU(Quota|Weight|Shares))=' "$unit"
}

node() {
    pid=$(pgrep -x -o kubelet) || return 0
    program=$(readlink "/proc/$pid/exe")
    arguments kubelet | sed 1d >"$work/kubelet"
    config=$(flag config <"$work/kubelet")
    say kubelet_program <<END
$program
END
    version "$program" --version | say kubelet_version
    say kubelet_arguments <"$work/kubelet"
    [ ! -f "$config" ] || say kubelet_config <"$config"
    cat /var/lib/kubelet/kubeadm-flags.env 2>/dev/null | say kubelet_kubeadm
    # A link to /dev/null hides one.
    for file in $(systemctl show --property=DropInPaths --value kubelet.service 2>/dev/null); do
        [ ! -s "$file" ] || echo "$file"
    done | say kubelet_dropins
    limits kubelet.service | say kubelet_limits
    # Kubernetes takes the name in lower case.
    { flag hostname-override <"$work/kubelet"; hostname; } | head -n 1 | tr '[:upper:]' '[:lower:]' | say name

    manifests=$(sed -n 's/^staticPodPath: *//p' "$config" 2>/dev/null | tr -d "\"'" | head -n 1)
    manifests=${manifests:-$(flag pod-manifest-path <"$work/kubelet")}
    printf '%s' "$manifests" | say manifests_folder
    ls "${manifests:-/none}" 2>/dev/null | say manifests_names
    for name in kube-apiserver kube-controller-manager kube-scheduler etcd; do
        [ ! -f "$manifests/$name.yaml" ] || say "manifest_$name" <"$manifests/$name.yaml"
    done

    for program in containerd dockerd crio; do
        pid=$(pgrep -x -o $program) || continue
        version "$(readlink "/proc/$pid/exe")" --version | say "${program}_version"
    done
    ! command -v runc >/dev/null || version runc --version | say runc_version
    # The first that the process names, or the usual one.
    config=$(arguments containerd | sed -n -e 's/^--config=//p' -e '/^\(--config\|-c\)$/{n;p;}' | head -n 1)
    cat "${config:-/etc/containerd/config.toml}" 2>/dev/null | say containerd_config
    ls /etc/containerd/certs.d 2>/dev/null | say containerd_registries
    cat /etc/containerd/cri-base.json 2>/dev/null | say containerd_base

    ls /etc/cni/net.d 2>/dev/null | say network_files
    ls /etc/kubernetes/components 2>/dev/null | say components
    mode=routes
    [ ! -e /etc/systemd/system/kube-pod-bgp.service ] || mode=bgp
    ! grep -qs 'type vxlan' /usr/local/sbin/kube-pod-routes || mode=vxlan
    printf '%s' $mode | say network_bridge
}

member() {
    arguments etcd >"$work/etcd" || return 0
    version "$(readlink "/proc/$(pgrep -x -o etcd)/exe")" --version | say etcd_version
    say etcd_arguments <"$work/etcd"
    # A member in a pod has no unit.
    grep -sh '^ETCD_[A-Z_]*=' /etc/etcd.env | grep -v PASSWORD | say etcd_environment
    limits etcd.service | say etcd_limits
    # Its script shows that Windlass issued the certificates.
    [ ! -e /etc/ssl/etcd/issue-certificates ] || echo yes | say etcd_windlass
}

# A line for each node, and `List` at its end. Kubelets write texts of their own into labels, addresses and nodeInfo:
# kubectl prints these as JSON, where tabs and newlines are escaped.
nodes='{range .items[*]}{.metadata.name}{"\t"}{.metadata.labels}{"\t"}{.spec.taints}{"\t"}'
nodes=$nodes'{.status.addresses}{"\t"}{.status.nodeInfo}{"\n"}{end}{.kind}'
# Images are texts of tenants: printed on one line, in ASCII.
workloads='{{range .items}}{{.metadata.namespace}}/{{.metadata.name}}
{{- range .spec.template.spec.containers}} {{printf "%+.300q" .image}}{{end}}{{"\n"}}{{end}}'

# members: what etcd answers about its members, as JSON. Labels of pods and names of processes show nothing, because
# whoever runs a pod chooses them.
members() {
    set -- --cacert "$(flag etcd-cafile <"$work/apiserver")" --cert "$(flag etcd-certfile <"$work/apiserver")" \
        --key "$(flag etcd-keyfile <"$work/apiserver")"
    servers=$(flag etcd-servers <"$work/apiserver")
    ETCDCTL_API=3 timeout 60 etcdctl "$@" --endpoints "$servers" --write-out json member list 2>/dev/null && return
    for server in $(printf '%s' "$servers" | tr ',' ' '); do
        curl --silent --fail --max-time 20 "$@" --data '{}' "$server/v3/cluster/member/list" && return
    done
    folder=/etc/kubernetes/pki/etcd
    name=$({ flag hostname-override <"$work/kubelet"; hostname; } | head -n 1 | tr '[:upper:]' '[:lower:]')
    in_system exec "etcd-$name" --container etcd -- etcdctl --cacert "$folder/ca.crt" \
        --cert "$folder/healthcheck-client.crt" --key "$folder/healthcheck-client.key" \
        --endpoints https://127.0.0.1:2379 --write-out json member list </dev/null
}

control_plane() {
    arguments kube-apiserver >"$work/apiserver" || return 0
    port=$(flag secure-port <"$work/apiserver")
    address=$(flag advertise-address <"$work/apiserver")
    case "$address" in *:*) address="[$address]" ;; esac
    openssl x509 -noout -ext subjectAltName -in "$(flag tls-cert-file <"$work/apiserver")" 2>/dev/null |
        tr ',' '\n' | sed -nE 's/^ *(DNS|IP Address)://p' | say certificate_names
    grep -sh '^ *server: ' /etc/kubernetes/admin.conf | say server
    tool=$(command -v kubectl) || return 0
    kube() {
        "$tool" --kubeconfig /etc/kubernetes/admin.conf --server "https://$address:${port:-6443}" \
            --request-timeout=30s "$@" 2>/dev/null
    }
    [ "$(kube get --raw /readyz)" = ok ] || return 0
    kube get nodes --output "jsonpath=$nodes" | say api_nodes 8388608
    in_system() { kube --namespace kube-system "$@"; }
    members | say api_members
    in_system get configmap kubeadm-config --output 'jsonpath={.data.ClusterConfiguration}' | say api_kubeadm
    in_system get configmap kube-proxy --output 'jsonpath={.data.config\.conf}' | say api_proxy
    in_system get service kube-dns --output 'jsonpath={.spec.clusterIP}' | say api_dns
    kube get daemonsets,deployments --all-namespaces --output go-template --template "$workloads" | say api_workloads
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ip -o addr show scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4 }' | say addresses
node
member
control_plane
echo yes | say "done"
