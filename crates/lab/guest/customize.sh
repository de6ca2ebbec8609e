# Runs inside the new base, once. What it makes is the same for every host.
umask 022
systemctl enable --quiet systemd-networkd.service ssh.service windlass-lab-remount.service
systemctl disable --quiet bird.service haproxy.service
systemctl mask --quiet apt-daily.timer apt-daily-upgrade.timer fstrim.timer e2scrub_all.timer dpkg-db-backup.timer

# Host keys and the machine id belong to one host each.
rm -f /etc/ssh/ssh_host_*
: > /etc/machine-id
echo 'LANG=C.UTF-8' > /etc/default/locale

useradd --create-home --uid 1000 --shell /bin/bash ops
useradd --create-home --uid 1001 --shell /bin/bash opspw
echo 'opspw:windlass' | chpasswd
echo 'ops ALL=(ALL:ALL) NOPASSWD: ALL' > /etc/sudoers.d/ops
echo 'opspw ALL=(ALL:ALL) ALL' > /etc/sudoers.d/opspw
chmod 0440 /etc/sudoers.d/ops /etc/sudoers.d/opspw

# A package repository that needs no network: one package in two versions, one with a service and a configuration file.
repository=/opt/windlass-lab/apt
work=$(mktemp -d)
package() { # NAME VERSION DEPENDS
    mkdir -p "$work/$1/DEBIAN"
    {
        echo "Package: $1"
        echo "Version: $2"
        echo "Architecture: all"
        echo "Maintainer: Windlass lab <lab@localhost>"
        [ -z "$3" ] || echo "Depends: $3"
        echo "Description: package of the lab, for tests of package management"
    } > "$work/$1/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$work/$1" "$repository/$1_$2_all.deb" > /dev/null
}
mkdir -p "$repository"
for version in 1.0 2.0; do
    mkdir -p "$work/lab-hello/usr/bin"
    printf '#!/bin/sh\necho "hello %s"\n' "$version" > "$work/lab-hello/usr/bin/lab-hello"
    chmod 0755 "$work/lab-hello/usr/bin/lab-hello"
    package lab-hello "$version" ''
done
mkdir -p "$work/lab-service/lib/systemd/system" "$work/lab-service/etc" "$work/lab-service/DEBIAN"
echo 'greeting=hello' > "$work/lab-service/etc/lab-service.conf"
echo '/etc/lab-service.conf' > "$work/lab-service/DEBIAN/conffiles"
cat > "$work/lab-service/lib/systemd/system/lab-service.service" <<'UNIT'
[Unit]
Description=A service of the lab that only waits

[Service]
ExecStart=/bin/sleep infinity
ExecReload=/bin/true

[Install]
WantedBy=multi-user.target
UNIT
package lab-service 1.0 'lab-hello (>= 1.0)'
rm -rf "$work"
cd "$repository"
for file in *.deb; do
    dpkg-deb -f "$file"
    echo "Filename: ./$file"
    echo "Size: $(stat -c %s "$file")"
    echo "SHA256: $(sha256sum "$file" | cut -d ' ' -f 1)"
    echo
done > Packages
rm -rf /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/opt/windlass-lab/apt ./' > /etc/apt/sources.list
