# shellcheck shell=bash disable=SC2154
# Observations on a host; lib.sh comes before this file.

space() { # space NUMBERS: one file system's free space and free inodes, in percent
  local space=$1 inodes=$2 place=$3 status=pass free
  free=$space
  [ "${inodes:-100}" -lt "$space" ] && free=$inodes
  [ "$free" -ge "$FREE_WARN" ] || status=warn
  [ "$free" -ge "$FREE_FAIL" ] || status=fail
  say host.space $status "$place has $space % of its space free, and ${inodes:-100} % of its inodes"
}

# Folders of one file system count once.
places=$(for place in / $PLACES; do [ ! -d "$place" ] || echo "$place"; done)
# shellcheck disable=SC2086
while read -r used inodes place; do
  [ "$inodes" != - ] || inodes=0
  space $((100 - used)) $((100 - inodes)) "$place"
done < <(df --output=pcent,ipcent,target -- $places 2>/dev/null | tail -n +2 | tr -d % | sort -u)

for unit in $UNITS; do
  active=$(systemctl is-active "$unit" 2>/dev/null) enabled=$(systemctl is-enabled "$unit" 2>/dev/null)
  status=pass
  [ "$enabled" = enabled ] || status=warn
  [ "$active" = active ] || status=fail
  say host.units $status "$unit is ${active:-unknown}, ${enabled:-not enabled}"
done
while read -r unit _; do
  [[ " $UNITS " == *" $unit "* ]] || say host.units warn "$unit has failed"
done < <(systemctl list-units --failed --plain --no-legend 2>/dev/null)

if [ -r "$SYSCTL_FILE" ]; then
  say host.sysctls pass "read from $SYSCTL_FILE"
  while IFS='=' read -r name wanted; do
    name=$(echo $name) wanted=$(echo $wanted)
    [[ -n $name && $name != [\#\;]* ]] || continue
    found=$(echo $(sysctl -n "${name#-}" 2>/dev/null))
    [ "$found" = "$wanted" ] || say host.sysctls fail "$name is ${found:-unknown}, $SYSCTL_FILE wants $wanted"
  done <"$SYSCTL_FILE"
fi

now=$(date +%s)
ends() { # ends NAME: the certificate on standard input
  local end status=pass days
  end=$(openssl x509 -noout -enddate 2>/dev/null) || return
  days=$((($(date -d "${end#*=}" +%s) - now) / 86400))
  [ $days -ge "$CERTIFICATE_WARN" ] || status=warn
  [ $days -ge "$CERTIFICATE_FAIL" ] || status=fail
  say host.certificates $status "$1 ends in $days days, ${end#*=}"
}
for file in "$KUBE_CERT_DIR"/*.crt "$KUBE_CERT_DIR"/etcd/*.crt "$ETCD_CERT_DIR"/*.pem \
  /var/lib/kubelet/pki/kubelet-client-current.pem /var/lib/kubelet/pki/kubelet-server-current.pem; do
  [[ $file == *-key.pem || ! -f $file ]] || ends "$file" <"$file"
done
for file in "$KUBE_CONFIG_DIR"/*.conf; do
  data=$(sed -n 's/^ *client-certificate-data: *//p' "$file" 2>/dev/null | head -n 1)
  [ -z "$data" ] || base64 -d <<<"$data" | ends "$file"
done
# Programs keep the certificate with which they started.
for address in $SERVED; do
  timeout 5 openssl s_client -connect "$address" </dev/null 2>/dev/null | ends "the certificate at $address"
done

for entry in $PROGRAMS; do # PROGRAM=VERSION
  program=${entry%%=*} wanted=${entry#*=}
  case $program in
    etcd) found=$("$BIN_DIR/etcd" --version 2>/dev/null | sed -n 's/^etcd Version: //p') ;;
    kubeadm) found=$("$BIN_DIR/kubeadm" version --output short 2>/dev/null) ;;
    *) found=$("$BIN_DIR/$program" --version 2>/dev/null | sed 's/^.* v/v/') ;;
  esac
  found=${found#v}
  say host.versions "$(judge [ "$found" = "$wanted" ])" "$program is ${found:-missing}, the inventory wants $wanted"
done
release() { # release PROGRAM
  timeout 10 "$1" --version 2>/dev/null | grep -oE '[0-9]+([.][0-9]+){1,2}' | head -n 1
}
# A daemon runs the program with which it started, whichever is on the disk.
for unit in $UNITS; do
  pid=$(systemctl show --property=MainPID --value "$unit" 2>/dev/null)
  [[ ${pid:-0} -gt 0 && $(readlink "/proc/$pid/exe") == *' (deleted)' ]] || continue
  found=$(release "/proc/$pid/exe") disk=$(readlink "/proc/$pid/exe")
  disk=$(release "${disk% (deleted)}")
  say host.versions "$(judge [ "$found" = "$disk" ])" \
    "$unit runs release ${found:-unknown} of its program until it is restarted, ${disk:-none} is installed"
done
exit 0
