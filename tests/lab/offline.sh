# shellcheck shell=bash disable=SC2154
# The operations of tests/lab/operations on hosts without a mirror. They use functions of operations.sh.

# ---- bundle ----

bundle() { "$windlass" bundle "$@"; }
hosts_without_mirror() {
  rm -f "$log/cluster"
  "$windlass" lab down
  "$windlass" lab up --nodes "${1:-2}" --memory 3G "${lab_options[@]}" && on node1 "! test -e $cache/artifacts"
}
smaller() { ls -l "$1" "$2"; [ "$(stat -c %s "$1")" -lt "$(stat -c %s "$2")" ]; }

operation_bundle() {
  local nodes='node1 node2' inventory=$log/offline from to
  from=$(older_release) to=$(newer_release)
  local first=$operation/first.bundle next=$operation/next.bundle
  holds '2 hosts start that see no mirror' hosts_without_mirror
  grouped "$inventory" node1 node1 "$nodes"
  holds 'their settings' settings
  echo "ops@example.com $(cat "$log/backups.key.pub")" >"$operation/signers"
  ssh-keygen -q -t ed25519 -N '' -C other -f "$operation/other" && echo "ops@example.com $(cat "$operation/other.pub")" >"$operation/others"
  local site=(-e bundle="$first" -e bundle_allowed_signers="$operation/signers")
  export WINDLASS_LAB_RELEASE=$from
  holds 'a bundle is created' bundle create -i "$inventory" --sign "$log/backups.key" "$first"
  holds 'its signature and hashes hold' bundle verify --allowed-signers "$operation/signers" "$first"
  holds 'another signer is refused' not bundle verify --allowed-signers "$operation/others" "$first"
  holds 'so it is by cluster.yml' not run refused.log cluster -e bundle="$first" -e bundle_allowed_signers="$operation/others"
  holds 'cluster.yml makes a cluster of it' run cluster.log cluster "${site[@]}"
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'they have its release' running "$from"
  holds 'a Deployment answers on every node' deployment
  holds 'cluster.yml changes nothing' unchanged cluster "${site[@]}"
  export WINDLASS_LAB_RELEASE=$to
  holds 'a difference bundle of the next release' bundle create -i "$inventory" --since "$first" --sign "$log/backups.key" "$next"
  holds 'it is smaller' smaller "$next" "$first"
  holds 'the difference is listed' bundle diff "$first" "$next"
  holds 'its signature and hashes hold too' bundle verify --allowed-signers "$operation/signers" --base "$first" "$next"
  site=(-e bundle="$next" -e bundle_allowed_signers="$operation/signers" -e "{\"bundle_bases\": [\"$first\"]}")
  holds 'upgrade.yml upgrades from it' run upgrade.log upgrade "${site[@]}"
  holds 'all nodes have the next release' running "$to"
  holds 'the Deployment answers on every node' answer_everywhere
  holds 'upgrade.yml changes nothing' unchanged upgrade "${site[@]}"
  rm -f "$first" "$next"
}

# ---- preflight ----

# served FILE: a bundle's files and images on this machine, and the options with which hosts fetch from it
served() {
  local server; server=$(address node1 | sed 's/[0-9]*$/1/'):5598
  "$windlass" bundle serve --allowed-signers "$operation/signers" --listen "$server" "$1" "$operation/served" >"$operation/serve.log" 2>&1 &
  server_process=$!
  trap 'kill $server_process' EXIT
  site=(-e "{\"files_repo\": \"http://$server$cache/artifacts/files\", \"image_archives\": [], \"containerd_registries_mirrors\": [$(
    for registry in k8s.gcr.io quay.io docker.io; do
      printf '{"prefix": "%s", "mirrors": [{"host": "http://%s", "capabilities": ["pull", "resolve"]}]},' $registry "$server"
    done | sed 's/,$//')]}")
  eventually 120 curl -sf -o /dev/null "http://$server/v2/"
}
still_bare() { local node; for node in $nodes; do on "$node" '! test -e /etc/kubernetes && ! test -e /usr/local/bin/kubeadm' || return 1; done; }

operation_preflight() {
  local nodes='node1 node2' inventory=$log/served from to
  from=$(older_release) to=$(newer_release)
  export WINDLASS_LAB_RELEASE=$from
  holds '2 hosts start that see no mirror' hosts_without_mirror
  grouped "$inventory" node1 node1 "$nodes"
  holds 'their settings' settings
  echo "ops@example.com $(cat "$log/backups.key.pub")" >"$operation/signers"
  holds 'a bundle is created' bundle create -i "$inventory" --sign "$log/backups.key" "$operation/first.bundle"
  served "$operation/first.bundle" >"$operation/served.log" 2>&1 || { cat "$operation"/serve*.log; echo 'a bundle is served' >"$operation/failed"; exit 1; }
  holds 'cluster.yml refuses an image that no server has' refused image.log 'pause:9.9 (404 from http:.*which no server has' cluster \
    "${site[@]}" -e pod_infra_version=9.9
  holds 'cluster.yml refuses a file that the server lacks' refused file.log 'missing.tgz, which no server has' cluster \
    "${site[@]}" -e '{"cni_download_url": "{{ files_repo }}/missing.tgz"}'
  holds 'a host has little room for programs' on node2 'mount -t tmpfs -o size=64m none /usr/local/bin'
  holds 'cluster.yml refuses it with the room that it needs' refused room.log \
    'node2 has not enough room. /usr/local/bin has 6[0-9] MiB of free space, but [0-9]* are needed.*MiB of files are fetched' cluster \
    "${site[@]}" -e minimal_free_space_mb=32
  holds 'it gets more' on node2 'umount /usr/local/bin'
  holds 'nothing was changed' still_bare
  holds 'cluster.yml makes a cluster of what the server has' run cluster.log cluster "${site[@]}"
  holds 'its nodes are Ready' eventually 60 all_ready
  export WINDLASS_LAB_RELEASE=$to
  holds 'upgrade.yml refuses a release that the server lacks' refused upgrade.log "\[mirror\] .*/kubelet.*kube-apiserver:v$to (404 from" upgrade "${site[@]}"
  holds 'the cluster has its release' running "$from"
  rm -f "$operation/first.bundle"
}

# ---- registry ----

# served_by_hosts: files and images of the bundle, from the servers of the group `registry`
served_by_hosts() {
  local address; address=$(address node3)
  echo "    registry: {hosts: {node2: {}, node3: {ansible_host: $address, ip: $address}}}" >>"$inventory/hosts.yml"
  printf '%s\n' 'registry_mirrored: [k8s.gcr.io, quay.io, docker.io]' 'image_archives: []' 'download_validate_certs: false' \
    "files_repo: \"{{ registry_scheme }}://{{ registry_mirrors | first }}$cache/artifacts/files\"" >"$operation/site.yml"
}
servers_run() { local node; for node in node2 node3; do on "$node" systemctl is-active windlass-registry || return 1; done; }
# pulled NODE: its runtime pulls an image that it does not have
pulled() {
  on "$1" "ctr -n lab images rm docker.io/windlass/hello:1.0 2>/dev/null
    ctr -n lab images pull --hosts-dir /etc/containerd/certs.d docker.io/windlass/hello:1.0"
}
no_servers() { local node; for node in node2 node3; do on "$node" '! systemctl cat windlass-registry && ! test -e /var/lib/windlass-registry' || return 1; done; }

operation_registry() {
  local nodes='node1 node2 node3' inventory=$log/mirrored site=(-e "@$operation/site.yml") bundle=$operation/site.bundle from
  from=$(older_release)
  export WINDLASS_LAB_RELEASE=$from
  holds '3 hosts start that see no mirror' hosts_without_mirror 3
  grouped "$inventory" node1 node1 'node1 node2'
  holds 'their settings' settings
  echo "ops@example.com $(cat "$log/backups.key.pub")" >"$operation/signers"
  holds 'a bundle is created' bundle create -i "$inventory" --sign "$log/backups.key" "$bundle"
  served_by_hosts
  nodes='node1 node2'
  holds 'registry.yml serves it on two hosts' run registry.log registry -e bundle="$bundle" -e bundle_allowed_signers="$operation/signers"
  holds 'both servers run' servers_run
  holds 'cluster.yml makes a cluster of what they have' run cluster.log cluster "${site[@]}"
  holds 'its nodes are Ready' eventually 60 all_ready
  holds 'they have its release' running "$from"
  holds 'cluster.yml changes nothing' unchanged cluster "${site[@]}"
  holds 'registry.yml changes nothing' unchanged registry -e bundle="$bundle" -e bundle_allowed_signers="$operation/signers"
  holds 'one of the servers stops' on node2 systemctl stop windlass-registry
  holds 'a node pulls an image from the other one' pulled node1
  holds 'it starts again' on node2 systemctl start windlass-registry
  holds 'that one stops' on node3 systemctl stop windlass-registry
  holds 'a node pulls an image from the first' eventually 60 pulled node1
  holds 'registry.yml removes the servers' run absent.log registry -e registry_state=absent
  holds 'nothing of them is left' no_servers
  rm -f "$bundle"
}
