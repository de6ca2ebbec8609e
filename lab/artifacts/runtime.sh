# shellcheck shell=bash disable=SC2034,SC2154 # shares its variables with the other parts
# Programs of a host other than Kubernetes: containerd, runc, crun, the CNI plugins, etcd, crictl and haproxy, from
# Debian's binary packages, in archives named and laid out as upstream's releases.

# runtime_build: fills $FILES and sets the *_VERSION variables that images.sh and describe.sh use.
runtime_build() {
    CONTAINERD_VERSION=$(upstream_of "$(debian_version containerd)")
    RUNC_VERSION=$(upstream_of "$(debian_version runc)")
    CRUN_VERSION=$(upstream_of "$(debian_version crun)")
    CNI_VERSION=$(upstream_of "$(debian_version containernetworking-plugins)")
    ETCD_VERSION=$(upstream_of "$(debian_version etcd-server)")
    HAPROXY_VERSION=$(upstream_of "$(debian_version haproxy)")
    NGINX_VERSION=$(upstream_of "$(debian_version nginx)")
    CRICTL_VERSION=1.20.0
    runtime_paths
    runtime_containerd
    runtime_runc
    runtime_crun
    runtime_cni
    runtime_etcd
    runtime_crictl
    runtime_haproxy
}

# Where each file lies in the mirror, below $FILES. Upstream's addresses, so that one base address serves them all.
runtime_paths() {
    CONTAINERD_PATH=github.com/containerd/containerd/releases/download/v$CONTAINERD_VERSION/containerd-$CONTAINERD_VERSION-linux-amd64.tar.gz
    RUNC_PATH=github.com/opencontainers/runc/releases/download/v$RUNC_VERSION/runc.amd64
    CRUN_PATH=github.com/containers/crun/releases/download/$CRUN_VERSION/crun-$CRUN_VERSION-linux-amd64
    CNI_PATH=github.com/containernetworking/plugins/releases/download/v$CNI_VERSION/cni-plugins-linux-amd64-v$CNI_VERSION.tgz
    ETCD_PATH=github.com/etcd-io/etcd/releases/download/v$ETCD_VERSION/etcd-v$ETCD_VERSION-linux-amd64.tar.gz
    CRICTL_PATH=github.com/kubernetes-sigs/cri-tools/releases/download/v$CRICTL_VERSION/crictl-v$CRICTL_VERSION-linux-amd64.tar.gz
    HAPROXY_PATH=windlass/haproxy/haproxy-$HAPROXY_VERSION-linux-amd64.tar.gz
}

runtime_containerd() {
    [[ -e $FILES/$CONTAINERD_PATH ]] && return
    local tree=$WORK/tree/containerd
    debian_unpack containerd "$tree/package"
    rm -rf "${tree:?}/bin"
    mkdir "$tree/bin"
    cp "$tree"/package/usr/bin/{containerd,containerd-shim,containerd-shim-runc-v1,containerd-shim-runc-v2,ctr} "$tree/bin/"
    pack "$FILES/$CONTAINERD_PATH" "$tree" bin
}

runtime_runc() {
    [[ -e $FILES/$RUNC_PATH ]] && return
    debian_unpack runc "$WORK/tree/runc"
    place "$WORK/tree/runc/usr/sbin/runc" "$FILES/$RUNC_PATH"
}

# Unlike upstream's, Debian's crun is not static: hosts get libyajl2 by tests/lab/packages.yml.
runtime_crun() {
    [[ -e $FILES/$CRUN_PATH ]] && return
    debian_unpack crun "$WORK/tree/crun"
    place "$WORK/tree/crun/usr/bin/crun" "$FILES/$CRUN_PATH"
}

runtime_cni() {
    [[ -e $FILES/$CNI_PATH ]] && return
    debian_unpack containernetworking-plugins "$WORK/tree/cni"
    pack "$FILES/$CNI_PATH" "$WORK/tree/cni/usr/lib/cni" .
}

runtime_etcd() {
    [[ -e $FILES/$ETCD_PATH ]] && return
    local tree=$WORK/tree/etcd folder=etcd-v$ETCD_VERSION-linux-amd64
    debian_unpack etcd-server "$tree/package"
    debian_unpack etcd-client "$tree/package"
    mkdir -p "$tree/$folder"
    cp "$tree"/package/usr/bin/{etcd,etcdctl} "$tree/$folder/"
    pack "$FILES/$ETCD_PATH" "$tree" "$folder"
}

runtime_crictl() {
    pack "$FILES/$CRICTL_PATH" "$HERE" crictl
}

# haproxy needs libraries that a host may lack. So its folder contains them, their loader, and a launcher with their
# paths, and can be put anywhere. Hosts with Debian's haproxy package need none of this.
runtime_haproxy() {
    [[ -e $FILES/$HAPROXY_PATH ]] && return
    local tree=$WORK/tree/haproxy folder=haproxy-$HAPROXY_VERSION-linux-amd64
    runtime_root haproxy
    rm -rf "${tree:?}/$folder"
    mkdir -p "$tree/$folder/lib"
    cp "$WORK/roots/haproxy/usr/sbin/haproxy" "$tree/$folder/haproxy.bin"
    chroot "$WORK/roots/haproxy" /lib64/ld-linux-x86-64.so.2 --list /usr/sbin/haproxy |
        grep -o '/[^ ]*\.so[^ ]*' | while read -r library; do
        cp -L "$WORK/roots/haproxy$library" "$tree/$folder/lib/"
    done
    cat >"$tree/$folder/haproxy" <<'EOF'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/lib/ld-linux-x86-64.so.2" --library-path "$here/lib" --argv0 "$here/haproxy" "$here/haproxy.bin" "$@"
EOF
    chmod 755 "$tree/$folder/haproxy"
    pack "$FILES/$HAPROXY_PATH" "$tree" "$folder"
}

# runtime_root NAME PACKAGE...: a root folder with the packages (NAME alone names the package, too) and everything
# they depend on, unpacked but not configured, in $WORK/roots/NAME.
runtime_root() {
    local name=$1 root=$WORK/roots/$1 include
    shift
    [[ -e $root.complete ]] && return
    need_packages mmdebstrap
    include=$(IFS=,; printf '%s' "${*:-$name}")
    rm -rf "$root"
    mkdir -p "$WORK/roots"
    mmdebstrap --quiet --variant=extract --mode=root --include="$include" "$DEBIAN_SUITE" "$root" \
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $DEBIAN_MIRROR $DEBIAN_SUITE main"
    touch "$root.complete"
}
