# shellcheck shell=bash disable=SC2034,SC2154 # shares its variables with the other parts
# Shared by every part of lab/artifacts: messages, the private package index, fetching from Debian.
# Sourced by `build`; expects CACHE to be set.

readonly DEBIAN_SUITE=bookworm
readonly DEBIAN_MIRROR=${WINDLASS_DEBIAN_MIRROR:-http://deb.debian.org/debian}

say() { printf 'artifacts: %s\n' "$*" >&2; }
die() { printf 'artifacts: %s\n' "$*" >&2; exit 1; }

# Installs the named packages that the machine lacks. The only thing this folder changes outside the cache.
need_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [[ ${#missing[@]} -eq 0 ]] && return
    say "installing build tools: ${missing[*]}"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null
}

# A package index of our own, for Debian bookworm with its sources, so that the machine's own apt
# configuration (another release, other repositories, no deb-src lines) is neither used nor changed.
# The security archive is left out: some mirrors of it lack the sources, and the lab's hosts are thrown away.
debian_index() {
    local apt=$WORK/apt
    [[ -e $apt/ready ]] && return
    need_packages debian-archive-keyring
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    local keyring="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    cat >"$apt/sources.list" <<EOF
deb $keyring $DEBIAN_MIRROR $DEBIAN_SUITE main
deb $keyring $DEBIAN_MIRROR $DEBIAN_SUITE-updates main
deb-src $keyring $DEBIAN_MIRROR $DEBIAN_SUITE main
EOF
    cat >"$apt/apt.conf" <<EOF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
APT::Architecture "amd64";
APT::Sandbox::User "root";
EOF
    APT_CONFIG=$apt/apt.conf apt-get -qq update
    touch "$apt/ready"
}

debian_apt() { debian_index; APT_CONFIG=$WORK/apt/apt.conf "$@"; }

# debian_version PACKAGE: the full Debian version that would be fetched.
debian_version() {
    debian_apt apt-cache show --no-all-versions "$1" | sed -n 's/^Version: //p'
}

# upstream_of VERSION: the upstream part of a Debian version (1.6.20~ds1-1+deb12u3 is 1.6.20,
# 1.20.5+really1.20.2-1.1+deb12u1 is 1.20.2).
upstream_of() {
    sed -E 's/^[0-9]+://; s/.*\+really//; s/[~+-].*//' <<<"$1"
}

# debian_unpack PACKAGE DIR: fetches a binary package and unpacks it into DIR. Nothing is installed.
debian_unpack() {
    local package=$1 dir=$2 pool=$WORK/debs/$1
    if [[ ! -d $pool ]]; then
        rm -rf "$pool.new"
        mkdir -p "$pool.new"
        (cd "$pool.new" && debian_apt apt-get -qq download "$package")
        mv "$pool.new" "$pool"
    fi
    mkdir -p "$dir"
    dpkg-deb -x "$pool"/*.deb "$dir"
}

# pack TARBALL DIR NAME...: the same bytes for the same content, whoever packs it and when.
pack() {
    local tarball=$1 dir=$2
    shift 2
    mkdir -p "$(dirname "$tarball")"
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$dir" -cf - "$@" | gzip -n -1 >"$tarball.new"
    mv "$tarball.new" "$tarball"
}

# place FILE DESTINATION: an executable, complete or not there at all.
place() {
    mkdir -p "$(dirname "$2")"
    install -m 755 "$1" "$2.new"
    mv "$2.new" "$2"
}
