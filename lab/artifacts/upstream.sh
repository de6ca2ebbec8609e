# shellcheck shell=bash disable=SC2034,SC2154 # shares its variables with the other parts
# Upstream's release files and images, for machines that reach the internet. The same files at the same places as
# from Debian, so that what uses the mirror does not know the difference.

upstream_reachable() { curl -fsS --max-time 5 -o /dev/null https://dl.k8s.io/release/stable.txt 2>/dev/null; }

upstream_build() {
    CONTAINERD_VERSION=1.6.20
    RUNC_VERSION=1.1.5
    CRUN_VERSION=1.8.1
    CNI_VERSION=1.1.1
    ETCD_VERSION=3.4.23
    CRICTL_VERSION=1.20.0
    HAPROXY_VERSION=2.6.12
    NGINX_VERSION=1.22.1
    need_packages curl ca-certificates skopeo
    runtime_paths
    local version name
    for version in "${KUBERNETES_VERSIONS[@]}"; do
        for name in kubeadm kubelet kubectl; do upstream_file "$(kubernetes_path "$version" "$name")" 755; done
        for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy; do
            upstream_image "$name" "v$version" "${KUBERNETES_REPOSITORIES[@]/%//$name:v$version}"
        done
    done
    for name in "$CONTAINERD_PATH" "$CNI_PATH" "$ETCD_PATH" "$CRICTL_PATH"; do upstream_file "$name" 644; done
    upstream_file "$RUNC_PATH" 755
    upstream_file "$CRUN_PATH" 755
    upstream_image pause "$PAUSE_VERSION" "${KUBERNETES_REPOSITORIES[@]/%//pause:$PAUSE_VERSION}"
    upstream_image haproxy "$HAPROXY_VERSION" "$DOCKER_REPOSITORY/library/haproxy:$HAPROXY_VERSION"
    upstream_image nginx "$NGINX_VERSION" "$DOCKER_REPOSITORY/library/nginx:$NGINX_VERSION"
    upstream_image etcd "v$ETCD_VERSION" "$ETCD_REPOSITORY:v$ETCD_VERSION"
    # No project releases these two: the load balancer as a program, and the test workload.
    runtime_haproxy
    images_static hello "$HELLO_VERSION" "$DOCKER_REPOSITORY/windlass/hello"
}

upstream_file() {
    local path=$1 mode=$2 file=$FILES/$1
    [[ -e $file ]] && return
    say "downloading https://$path"
    mkdir -p "$(dirname "$file")"
    curl -fsSL --retry 3 --connect-timeout 10 -o "$file.new" "https://$path"
    chmod "$mode" "$file.new"
    mv "$file.new" "$file"
}

# upstream_image NAME TAG REFERENCE...: pulled by the last reference, the archive carries all of them.
upstream_image() {
    local file
    file=$(image_file "$1" "$2")
    shift 2
    [[ -e $file ]] && return
    local tags=("${@/#/--additional-tag=}")
    say "pulling ${!#}"
    mkdir -p "$IMAGES"
    rm -f "$file.new"
    skopeo --insecure-policy --override-os linux --override-arch amd64 copy --quiet "${tags[@]}" "docker://${!#}" "docker-archive:$file.new:${!#}"
    mv "$file.new" "$file"
}
