# shellcheck shell=bash disable=SC2034,SC2154 # shares its variables with the other parts
# Upstream's release files and images, for machines that reach the internet. roles/catalog names versions, addresses and
# checksums, and the roles read them there: what uses the mirror does not know the difference.
#
# A file gets its name after its checksum was compared with the catalog's. Images are pulled by tag, because the catalog has no
# digests of them: only the registry's TLS certificate vouches for an image.
# WINDLASS_UPSTREAM_BASE replaces `https:/` in every address of a file, as `tools/catalog refresh --base` does. A registry
# that mirrors others is named in skopeo's configuration, /etc/containers/registries.conf.

# Entries of the catalog's artifacts and images that inventory/lab and tests/lab/cases need.
readonly UPSTREAM_FILES=(kubeadm kubelet kubectl containerd runc crun cni-plugins etcd crictl)
readonly UPSTREAM_IMAGES=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy pause etcd haproxy nginx)

upstream_address() { printf '%s/%s' "${WINDLASS_UPSTREAM_BASE:-https:/}" "$1"; }

upstream_reachable() {
    upstream_need curl curl ca-certificates
    curl -fsS --max-time 5 -o /dev/null "$(upstream_address dl.k8s.io/release/stable.txt)" 2>/dev/null
}

# upstream_need PROGRAM PACKAGE...: a program from elsewhere than Debian serves as well.
upstream_need() { command -v "$1" >/dev/null || need_packages "${@:2}"; }

upstream_mirror() {
    SOURCE="upstream's releases"
    local list contents releases version kind rest
    python3 -c 'import yaml' 2>/dev/null || need_packages python3-yaml
    read -ra releases <<<"${WINDLASS_KUBE_VERSIONS:-}"
    list=$("$HERE/../../tools/catalog" mirror "${UPSTREAM_FILES[@]}" "${UPSTREAM_IMAGES[@]/#/--image=}" "${releases[@]/#/--release=}") ||
        die "upstream's mirror has only what roles/catalog knows. WINDLASS_ARTIFACTS_FROM=debian builds older releases of Kubernetes."

    # These scripts, and the names and checksums of everything.
    contents=$(cat "$HERE"/{common,images,upstream,describe}.sh "$HERE/images/hello.c" - <<<"$list" | sha256sum)
    [[ -e $CACHE/contents && $(<"$CACHE/contents") == "$contents" ]] && return

    upstream_need curl curl ca-certificates
    upstream_need skopeo skopeo ca-certificates
    while read -r version kind rest; do
        read -ra rest <<<"$rest"
        "upstream_$kind" "${rest[@]}"
    done <<<"$list"
    # No project releases the test workload.
    rm -f "$(image_file hello "$HELLO_VERSION")"
    images_static hello "$HELLO_VERSION" "$DOCKER_REPOSITORY/windlass/hello"
    UPSTREAM_LIST=$list
    mapfile -t MIRRORED_VERSIONS < <(cut -d' ' -f1 <<<"$list" | uniq)
    describe_build
    echo "$contents" >"$CACHE/contents"
}

# upstream_file PATH MODE CHECKSUM
upstream_file() {
    local path=$1 mode=$2 checksum=$3 file=$FILES/$1 address
    address=$(upstream_address "$path")
    [[ -e $file && $(upstream_checksum "$file") == "$checksum" ]] && return
    say "downloading $address"
    mkdir -p "$(dirname "$file")"
    curl -fsSL --retry 3 --connect-timeout 10 --max-filesize 1G -o "$file.new" "$address" ||
        die "$address cannot be downloaded; curl says why above. Run this again, or name a mirror by WINDLASS_UPSTREAM_BASE."
    local found
    found=$(upstream_checksum "$file.new")
    if [[ $found != "$checksum" ]]; then
        rm "$file.new"
        die "$address is not the file that roles/catalog names: expected $checksum, found $found. The download was deleted." \
            "Run this again; if the difference stays, find out who changed the file before you run tools/catalog refresh."
    fi
    chmod "$mode" "$file.new"
    mv "$file.new" "$file"
}

upstream_checksum() { printf 'sha256:%s' "$(sha256sum <"$1" | cut -d' ' -f1)"; }

# upstream_image NAME REPOSITORY TAG
upstream_image() {
    local file reference=$2:$3
    file=$(image_file "$1" "$3")
    [[ -e $file ]] && return
    say "pulling $reference"
    mkdir -p "$IMAGES"
    rm -f "$file.new"
    skopeo --insecure-policy --override-os linux --override-arch amd64 copy --quiet "docker://$reference" "docker-archive:$file.new:$reference" ||
        die "$reference cannot be pulled; skopeo says why above. Run this again when the registry answers."
    mv "$file.new" "$file"
}

# upstream_versions RELEASE: the variables of versions.yml that roles/catalog cannot know. tests/lab/cases use the two image tags.
upstream_versions() {
    echo 'image_arch: amd64'
    awk -v release="$1" '$1 == release && $2 == "image" && ($3 == "haproxy" || $3 == "nginx") { printf "%s_version: \"%s\"\n", $3, $5 }' <<<"$UPSTREAM_LIST"
}

# upstream_archives RELEASE: the archives of that release's images.
upstream_archives() {
    local version kind name repository tag
    while read -r version kind name repository tag; do
        if [[ $version == "$1" && $kind == image ]]; then image_file "$name" "$tag"; fi
    done <<<"$UPSTREAM_LIST"
    image_file hello "$HELLO_VERSION"
}

upstream_checksums() { echo '# Those of the files are in roles/catalog.'; }
