# shellcheck shell=bash disable=SC2034,SC2154 # shares its variables with the other parts
# Lists the content of the mirror, for people (SHA256SUMS) and for inventories (versions.yml, releases, checksums.yml).

# describe_build: all of that for MIRRORED_VERSIONS, the oldest first.
describe_build() {
    (cd "$CACHE" && find files images -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
    describe_versions "${MIRRORED_VERSIONS[0]}" >"$CACHE/versions.yml"
    local version
    rm -rf "$CACHE/releases"
    mkdir "$CACHE/releases"
    for version in "${MIRRORED_VERSIONS[@]}"; do describe_versions "$version" >"$CACHE/releases/$version.yml"; done
    describe_checksums >"$CACHE/checksums.yml"
}

sum_of() { awk -v file="$1" '$2 == file { print $1 }' "$CACHE/SHA256SUMS"; }

# describe_versions VERSION: versions, addresses and images for that Kubernetes: variables to include in group_vars, or to pass as `-e @versions.yml`.
describe_versions() {
    local kubernetes=$1
    cat <<EOF
---
# Written by lab/artifacts/build. Everything here comes from: $SOURCE
files_repo: "file://$FILES"
images_dir: "$IMAGES"

kube_version: "$kubernetes"
dl_k8s_io_url: "{{ files_repo }}/dl.k8s.io"
github_url: "{{ files_repo }}/github.com"
EOF
    "${from}_versions" "$kubernetes"
    cat <<EOF

# Archives for the runtime's image store; \`names\` are what each one is called there.
image_archives:
EOF
    local archive
    for archive in $("${from}_archives" "$kubernetes"); do
        printf '  - file: "%s"\n    names: %s\n    sha256: "%s"\n' "$(basename "$archive")" \
            "$(tar -xOf "$archive" manifest.json | sed -E 's/.*"RepoTags":(\[[^]]*\]).*/\1/; s/,/, /g')" \
            "$(sum_of "images/$(basename "$archive")")"
    done
}

debian_versions() {
    cat <<EOF
containerd_version: "$CONTAINERD_VERSION"
runc_version: "$RUNC_VERSION"
crun_version: "$CRUN_VERSION"
cni_version: "$CNI_VERSION"
etcd_version: "$ETCD_VERSION"
crictl_version: "$CRICTL_VERSION"
haproxy_version: "$HAPROXY_VERSION"
nginx_version: "$NGINX_VERSION"
pod_infra_version: "$PAUSE_VERSION"
kubeadm_download_url: "{{ dl_k8s_io_url }}/release/v{{ kube_version }}/bin/linux/amd64/kubeadm"
kubelet_download_url: "{{ dl_k8s_io_url }}/release/v{{ kube_version }}/bin/linux/amd64/kubelet"
kubectl_download_url: "{{ dl_k8s_io_url }}/release/v{{ kube_version }}/bin/linux/amd64/kubectl"
containerd_download_url: "{{ files_repo }}/$CONTAINERD_PATH"
runc_download_url: "{{ files_repo }}/$RUNC_PATH"
crun_download_url: "{{ files_repo }}/$CRUN_PATH"
cni_download_url: "{{ files_repo }}/$CNI_PATH"
etcd_download_url: "{{ files_repo }}/$ETCD_PATH"
crictl_download_url: "{{ files_repo }}/$CRICTL_PATH"
haproxy_download_url: "{{ files_repo }}/$HAPROXY_PATH"
# nginx in the image is Debian's too.
nginx_stream_module: /usr/lib/nginx/modules/ngx_stream_module.so
EOF
    # Only the stamp is newer than the source, whose kubelet does not know these fields yet.
    [[ $1 == 1.20.* ]] || cat <<EOF
kubelet_shutdown_grace_period: ""
kubelet_shutdown_grace_period_critical_pods: ""
EOF
}

# debian_archives VERSION: all images but another Kubernetes' images.
debian_archives() {
    local archive
    for archive in "$IMAGES"/*.tar; do
        case $archive in
            *_v"$1".tar) ;;
            */kube-*) continue ;;
        esac
        echo "$archive"
    done
}

# SHA-256 by component, architecture and version.
describe_checksums() {
    printf -- '---\n# Written by lab/artifacts/build.\n'
    "${from}_checksums"
    printf 'image_archive_checksums:\n'
    local archive
    for archive in "$IMAGES"/*.tar; do
        archive=$(basename "$archive")
        printf '  "%s": "sha256:%s"\n' "$archive" "$(sum_of "images/$archive")"
    done
}

debian_checksums() {
    local name version
    for name in kubeadm kubelet kubectl; do
        printf '%s_checksums:\n  amd64:\n' "$name"
        for version in "${MIRRORED_VERSIONS[@]}"; do
            printf '    "%s": "sha256:%s"\n' "$version" "$(sum_of "files/$(kubernetes_path "$version" "$name")")"
        done
    done
    describe_checksum containerd_archive "$CONTAINERD_VERSION" "$CONTAINERD_PATH"
    describe_checksum runc "$RUNC_VERSION" "$RUNC_PATH"
    describe_checksum crun "$CRUN_VERSION" "$CRUN_PATH"
    describe_checksum cni "$CNI_VERSION" "$CNI_PATH"
    describe_checksum etcd "$ETCD_VERSION" "$ETCD_PATH"
    describe_checksum crictl "$CRICTL_VERSION" "$CRICTL_PATH"
    describe_checksum haproxy "$HAPROXY_VERSION" "$HAPROXY_PATH"
}

describe_checksum() {
    printf '%s_checksums:\n  amd64:\n    "%s": "sha256:%s"\n' "$1" "$2" "$(sum_of "files/$3")"
}
