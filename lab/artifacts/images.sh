# shellcheck shell=bash disable=SC2034,SC2154 # shares its variables with the other parts
# Container images without a registry and without a container tool: docker-archive files (a manifest, a
# configuration and one layer), for `ctr --namespace k8s.io images import`.

# kubeadm 1.20 takes its images from the first, later releases from the second; an archive carries both names.
readonly KUBERNETES_REPOSITORIES=(k8s.gcr.io registry.k8s.io)
readonly DOCKER_REPOSITORY=docker.io
readonly ETCD_REPOSITORY=quay.io/coreos/etcd
# Images that kubeadm 1.20 needs.
readonly PAUSE_VERSION=3.2
readonly HELLO_VERSION=1.0

images_build() {
    images_static pause "$PAUSE_VERSION" "${KUBERNETES_REPOSITORIES[@]/%//pause}"
    images_static hello "$HELLO_VERSION" "$DOCKER_REPOSITORY/windlass/hello"
    images_haproxy
    images_nginx
    images_etcd
    local version
    for version in "${KUBERNETES_VERSIONS[@]}"; do
        images_kubernetes kube-apiserver "$version"
        images_kubernetes kube-controller-manager "$version"
        images_kubernetes kube-scheduler "$version"
        images_kube_proxy "$version"
    done
}

# images_static NAME VERSION REPOSITORY...: an image of one small C program.
images_static() {
    local name=$1 version=$2 root=$WORK/images/$1 file
    shift 2
    file=$(image_file "$name" "$version")
    [[ -e $file ]] && return
    need_packages gcc libc6-dev
    rm -rf "$root"
    mkdir -p "$root"
    gcc -O2 -Wall -Wextra -Werror -static -s -o "$root/$name" "$HERE/images/$name.c"
    image_pack "$file" "$root" "[\"/$name\"]" "${@/%/:$version}"
}

images_kubernetes() {
    local name=$1 version=$2 root=$WORK/images/$1 file
    file=$(image_file "$name" "v$version")
    [[ -e $file ]] && return
    rm -rf "$root"
    mkdir -p "$root/usr/local/bin" "$root/tmp"
    chmod 1777 "$root/tmp"
    ln "$(kubernetes_output "$version")/$name" "$root/usr/local/bin/$name"
    image_pack "$file" "$root" null "${KUBERNETES_REPOSITORIES[@]/%//$name:v$version}"
}

# kube-proxy calls iptables, ipset and conntrack; those come from Debian, with what they need.
images_kube_proxy() {
    local version=$1 root=$WORK/roots/kube-proxy file name
    file=$(image_file kube-proxy "v$version")
    [[ -e $file ]] && return
    runtime_root kube-proxy iptables conntrack ipset kmod netbase
    # Packages are only unpacked, so the links that configuring them would make are made here.
    for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
        ln -sf xtables-nft-multi "$root/usr/sbin/$name"
    done
    mkdir -p "$root/usr/local/bin"
    ln -f "$(kubernetes_output "$version")/kube-proxy" "$root/usr/local/bin/kube-proxy"
    image_pack "$file" "$root" null "${KUBERNETES_REPOSITORIES[@]/%//kube-proxy:v$version}"
}

# The program and its libraries from the host's archive, put where the loader looks for them.
images_haproxy() {
    local root=$WORK/images/haproxy folder=$WORK/tree/haproxy/haproxy-$HAPROXY_VERSION-linux-amd64 file
    file=$(image_file haproxy "$HAPROXY_VERSION")
    [[ -e $file ]] && return
    rm -rf "$root"
    mkdir -p "$root"/{usr/sbin,lib64,lib/x86_64-linux-gnu,etc,var/lib/haproxy}
    cp "$folder/haproxy.bin" "$root/usr/sbin/haproxy"
    cp "$folder"/lib/* "$root/lib/x86_64-linux-gnu/"
    mv "$root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$root/lib64/"
    printf 'root:x:0:0:root:/:/sbin/nologin\nhaproxy:x:99:99:haproxy:/var/lib/haproxy:/sbin/nologin\n' >"$root/etc/passwd"
    printf 'root:x:0:\nhaproxy:x:99:\n' >"$root/etc/group"
    image_pack "$file" "$root" '["haproxy","-W","-db","-f","/usr/local/etc/haproxy/haproxy.cfg"]' \
        "$DOCKER_REPOSITORY/library/haproxy:$HAPROXY_VERSION"
}

# It needs haproxy's libraries, and one that every Debian has.
images_nginx() {
    local root=$WORK/images/nginx package=$WORK/tree/nginx libraries=$WORK/tree/haproxy/haproxy-$HAPROXY_VERSION-linux-amd64/lib file
    file=$(image_file nginx "$NGINX_VERSION")
    [[ -e $file ]] && return
    debian_unpack nginx "$package"
    debian_unpack libnginx-mod-stream "$package"
    rm -rf "$root"
    mkdir -p "$root"/{usr/sbin,usr/lib/nginx/modules,lib64,lib/x86_64-linux-gnu,run/nginx}
    cp "$package/usr/sbin/nginx" "$root/usr/sbin/"
    cp "$package/usr/lib/nginx/modules/ngx_stream_module.so" "$root/usr/lib/nginx/modules/"
    cp -L "$libraries"/* "$WORK/roots/haproxy/lib/x86_64-linux-gnu/libz.so.1" "$root/lib/x86_64-linux-gnu/"
    mv "$root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$root/lib64/"
    image_pack "$file" "$root" '["nginx","-g","daemon off;"]' "$DOCKER_REPOSITORY/library/nginx:$NGINX_VERSION"
}

# The host's program, for clusters in which kubeadm runs it. It needs the C library only.
images_etcd() {
    local root=$WORK/images/etcd libraries=$WORK/tree/haproxy/haproxy-$HAPROXY_VERSION-linux-amd64/lib file
    file=$(image_file etcd "v$ETCD_VERSION")
    [[ -e $file ]] && return
    rm -rf "$root"
    mkdir -p "$root"/{usr/local/bin,lib64,lib/x86_64-linux-gnu}
    tar -xf "$FILES/$ETCD_PATH" -C "$root/usr/local/bin" --strip-components=1
    cp "$libraries/libc.so.6" "$root/lib/x86_64-linux-gnu/"
    cp "$libraries/ld-linux-x86-64.so.2" "$root/lib64/"
    image_pack "$file" "$root" null "$ETCD_REPOSITORY:v$ETCD_VERSION"
}

image_file() { printf '%s/%s_%s.tar\n' "$IMAGES" "$1" "$2"; }

# image_pack FILE ROOT ENTRYPOINT NAME...: ENTRYPOINT is a JSON list, or null; every NAME refers to the image.
image_pack() {
    local file=$1 root=$2 entrypoint=$3 staging=$WORK/images/staging layer config names
    shift 3
    say "packing $(basename "$file")"
    rm -rf "$staging"
    mkdir -p "$staging" "$IMAGES"
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --hard-dereference \
        --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale --exclude=./usr/share/info \
        --exclude=./var/lib/dpkg --exclude=./var/lib/apt --exclude=./var/cache --exclude='./dev/*' \
        -C "$root" -cf "$staging/layer.tar" .
    layer=$(sha256sum <"$staging/layer.tar" | cut -d' ' -f1)
    printf '{"architecture":"amd64","os":"linux","created":"1970-01-01T00:00:00Z","config":{"Env":["PATH=%s"],"Entrypoint":%s},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$entrypoint" "$layer" >"$staging/config.json"
    config=$(sha256sum <"$staging/config.json" | cut -d' ' -f1)
    mv "$staging/config.json" "$staging/$config.json"
    names=$(printf '"%s",' "$@")
    printf '[{"Config":"%s.json","RepoTags":[%s],"Layers":["layer.tar"]}]' "$config" "${names%,}" >"$staging/manifest.json"
    (cd "$staging" && tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$file.new" -- *)
    mv "$file.new" "$file"
    rm -rf "$staging"
}
