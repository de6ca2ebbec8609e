# The installer, with a release in a directory: installed, upgraded, and refused if the archive was changed.
installer=$(realpath "$(dirname "$0")/../../tools/install.sh")
architecture=$(uname -m)
release() {
    local name=windlass-$1-$architecture-linux
    mkdir -p $name/man $name/completions release
    printf '#!/bin/sh\necho "windlass %s"\n' $1 > $name/windlass
    chmod 755 $name/windlass
    touch $name/man/windlass.1 $name/completions/windlass
    tar -czf release/$name.tar.gz $name
    (cd release && sha256sum $name.tar.gz > SHA256SUMS)
}
export WINDLASS_RELEASE=$PWD/release WINDLASS_PREFIX=$PWD/prefix
release 1.0.0
show sh "$installer" | sed 1d
find prefix -type f | sort
release 1.1.0
show sh "$installer" | sed 1d
echo more >> release/windlass-1.1.0-$architecture-linux.tar.gz
show sh "$installer" | sed "1d; s/-$architecture-/-ARCH-/"
WINDLASS_RELEASE=$PWD/nowhere
show sh "$installer" | sed 1d
prefix/bin/windlass
