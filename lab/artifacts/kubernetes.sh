# shellcheck shell=bash disable=SC2034,SC2154 # shares its variables with the other parts
# Kubernetes from Debian's source package, which is upstream's complete source with its vendored libraries.
# Built with Debian's Go, without cloud providers and without cgo: static binaries that run on any host.

readonly KUBERNETES_COMMANDS=(kubeadm kubelet kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy)
# Release in the source package, and the date when upstream released it.
readonly KUBERNETES_SOURCE_VERSION=1.20.2
readonly KUBERNETES_SOURCE_DATE=2021-01-13T13:20:00Z

# kubernetes_build VERSION: the binaries, stamped as VERSION; those for the hosts are placed in the mirror.
# The source is always 1.20.2; another stamp gives an upgrade something to go to.
kubernetes_build() {
    local version=$1 out packages=() name
    out=$(kubernetes_output "$version")
    if [[ ! -e $out/complete ]]; then
        need_packages golang-go dpkg-dev
        kubernetes_source
        kubernetes_openapi
        say "building kubernetes $version (several minutes the first time)"
        mkdir -p "$out"
        for name in "${KUBERNETES_COMMANDS[@]}"; do packages+=("k8s.io/kubernetes/cmd/$name"); done
        kubernetes_go build -tags providerless -ldflags "$(kubernetes_ldflags "$version")" -o "$out/" "${packages[@]}"
        touch "$out/complete"
    fi
    for name in kubeadm kubelet kubectl; do place "$out/$name" "$FILES/$(kubernetes_path "$version" "$name")"; done
}

kubernetes_output() { printf '%s/kubernetes/%s' "$WORK" "$1"; }

# Where a binary lies in the mirror, below $FILES.
kubernetes_path() { printf 'dl.k8s.io/release/v%s/bin/linux/amd64/%s' "$1" "$2"; }

kubernetes_go() {
    GOPATH=$WORK/gopath GOCACHE=$WORK/gocache GO111MODULE=off CGO_ENABLED=0 GOFLAGS=-trimpath nice -n 5 go "$@"
}

kubernetes_source() {
    local root=$WORK/gopath/src/k8s.io/kubernetes source=$WORK/source
    [[ -e $root/.unpacked ]] && return
    say "fetching the kubernetes source package"
    rm -rf "$root"
    mkdir -p "$root" "$source"
    (cd "$source" && debian_apt apt-get -qq source --download-only kubernetes)
    tar -xzf "$source"/kubernetes_*.orig.tar.gz -C "$root" --strip-components=1

    # The vendored reflect2 and json-iterator reach into the runtime of Go 1.17 and older, and panic
    # with a newer one. Debian packages versions of both that do not.
    local libraries=$WORK/golang-libraries name
    debian_unpack golang-github-modern-go-reflect2-dev "$libraries"
    debian_unpack golang-github-json-iterator-go-dev "$libraries"
    for name in github.com/modern-go/reflect2 github.com/json-iterator/go; do
        rm -rf "${root:?}/vendor/$name"
        cp -rL "$libraries/usr/share/gocode/src/$name" "$root/vendor/$name"
    done
    touch "$root/.unpacked"
}

# kube-apiserver and kubectl import a generated package that the release tarball leaves out.
kubernetes_openapi() {
    local root=$WORK/gopath/src/k8s.io/kubernetes generated=pkg/generated/openapi
    [[ -e $root/.openapi ]] && return
    say "generating the OpenAPI definitions"
    local generator=$WORK/openapi-gen
    kubernetes_go build -o "$generator" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
    local inputs
    inputs=$(cd "$root" && grep -rl --include=*.go '+k8s:openapi-gen=true' pkg cmd staging/src/k8s.io vendor/k8s.io 2>/dev/null |
        xargs -n1 dirname | sort -u |
        grep -v -e '/testdata' -e 'k8s.io/code-generator' -e 'k8s.io/sample-' |
        sed -e 's,^staging/src/,k8s.io/kubernetes/vendor/,' -e 's,^\(pkg\|cmd\|vendor\)/,k8s.io/kubernetes/\1/,' |
        sort -u | paste -sd,)
    # A binary built with -trimpath does not know where Go's own library is, which it has to read.
    (cd "$root" && GOROOT=$(go env GOROOT) GOPATH=$WORK/gopath GO111MODULE=off "$generator" \
        --go-header-file hack/boilerplate/boilerplate.generatego.txt \
        --input-dirs "$inputs" \
        --output-package "k8s.io/kubernetes/$generated" \
        --output-file-base zz_generated.openapi \
        --output-base "$WORK/gopath/src" \
        --report-filename /dev/null)
    touch "$root/.openapi"
}

kubernetes_ldflags() {
    local version=$1 flags="-s -w" package
    local major=${version%%.*} rest=${version#*.}
    for package in component-base/version client-go/pkg/version; do
        package=k8s.io/kubernetes/vendor/k8s.io/$package
        flags+=" -X $package.gitVersion=v$version -X $package.gitMajor=$major -X $package.gitMinor=${rest%%.*}"
        flags+=" -X $package.gitTreeState=clean -X $package.gitCommit=debian-$KUBERNETES_SOURCE_VERSION"
        flags+=" -X $package.buildDate=$KUBERNETES_SOURCE_DATE"
    done
    printf '%s' "$flags"
}
