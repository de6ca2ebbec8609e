#!/bin/bash
# Prints what a host runs and which files decide how: one line each, with checksums. Called with the folders of
# Kubernetes, kubelet, etcd and programs in KUBE_CONFIG_DIR, KUBELET_DIR, ETCD_DIR and BIN_DIR. No content of a key or a
# token is read for more than its checksum.
set -eu
system=$(. /etc/os-release && echo "${PRETTY_NAME:-unknown}")
echo "system $(base64 -w0 <<<"$system")"
echo "kernel $(uname -r | base64 -w0)"
for file in "$KUBE_CONFIG_DIR"/*.conf "$KUBE_CONFIG_DIR"/*.yaml "$KUBE_CONFIG_DIR"/manifests/* "$KUBELET_DIR"/*.yaml \
    "$KUBELET_DIR"/*.env "$ETCD_DIR"/*.env /etc/etcd*.env /etc/containerd/*.toml /etc/containerd/certs.d/*/* \
    /etc/crio/crio.conf.d/* /etc/containers/registries.conf.d/* /etc/docker/daemon.json /etc/cni/net.d/* \
    /etc/modules-load.d/* /etc/sysctl.d/* /etc/systemd/system/*.service /etc/systemd/system/*.service.d/* \
    "$BIN_DIR"/kube* "$BIN_DIR"/etcd* "$BIN_DIR"/containerd* "$BIN_DIR"/runc "$BIN_DIR"/crio "$BIN_DIR"/crun; do
    [ -f "$file" ] || continue
    sum=$(sha256sum <"$file") || continue
    echo "file $(base64 -w0 <<<"$file") ${sum%% *}"
done
for file in "$KUBE_CONFIG_DIR"/manifests/*.yaml; do
    [ -f "$file" ] && echo "manifest $(base64 -w0 <<<"${file##*/}") $(base64 -w0 <"$file")"
done
echo done
