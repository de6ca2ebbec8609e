#!/bin/sh
# machine.sh SECONDS [ADDRESS...]: prints a line for each observation.
#
#   clock DIFFERENCE      clock of the host less SECONDS, the time of the control machine since 1970
#   port HEX              a TCP port that something listens on
#   node                  a kubelet has joined a cluster
#   name NAME             the node name in its certificate
#   boolean NAME          one of BOOLEANS, which SELinux enforces to be off
#   firewall NAME         an active firewall
#   module NAME           one of MODULES, which the kernel neither has nor can load
#   container             the host has no hardware of its own
#   source MEMBER ADDRESS address from which a new member of etcd, without data in ETCD_DATA, connects to one of MEMBERS
#   blocked ADDRESS/PORT  one of CONNECTIONS, which nothing answers
#   silent ADDRESS        an ADDRESS that answers no ping
#   narrow ADDRESS MTU    one of NEW_PEERS, which gets no packet as large as the interface allows
echo "clock $(($(date +%s) - $1))"
shift
sed -nE 's/^ *[0-9]+: [0-9A-F]+:([0-9A-F]{4}) 0+:0000 0A .*/port \1/p' /proc/net/tcp /proc/net/tcp6 2>/dev/null
if [ -s /etc/kubernetes/kubelet.conf ]; then
  echo node
  # A host that has joined is connected already.
  CONNECTIONS='' NEW_PEERS=''
  openssl x509 -noout -subject -nameopt multiline -in /var/lib/kubelet/pki/kubelet-client-current.pem 2>/dev/null |
    sed -n 's/^ *commonName *= system:node:/name /p'
fi
if [ "$(getenforce 2>/dev/null)" = Enforcing ]; then
  for boolean in $BOOLEANS; do
    case $(getsebool "$boolean" 2>/dev/null) in *off) echo "boolean $boolean" ;; esac
  done
fi
! systemctl is-active --quiet firewalld 2>/dev/null || echo firewall firewalld
case $(LC_ALL=C ufw status 2>/dev/null) in 'Status: active'*) echo firewall ufw ;; esac
for module in $MODULES; do
  [ -d "/sys/module/$module" ] || [ -e "/proc/net/$module" ] || modprobe --dry-run --quiet "$module" 2>/dev/null ||
      echo "module $module"
done
! systemd-detect-virt --quiet --container 2>/dev/null || echo container
# A member with a log of its own opens its data without asking the others.
[ -d "$ETCD_DATA/member/wal" ] || for member in $MEMBERS; do
  ip -o route get "$member" 2>/dev/null | sed -n "s/.* src \([0-9A-Fa-f:.]*\).*/source $member \1/p"
done
# A refused connection is an answer: nothing listens yet.
connect() {
  answer=$(LC_ALL=C timeout 3 bash -c "exec 3<>/dev/tcp/$1" 2>&1) && return
  case $?:$answer in 124:* | *'No route'* | *unreachable* | *prohibited*) echo "blocked $1" ;; esac
}
if command -v bash >/dev/null; then
  for connection in $CONNECTIONS; do connect "$connection" & done
  wait
fi
command -v ping >/dev/null || exit 0
for address; do
  ping -q -c 1 -W 2 "$address" >/dev/null 2>&1 || ping -q -c 1 -W 2 "$address" >/dev/null 2>&1 || echo "silent $address"
done
case $(ping -V 2>/dev/null) in *iputils*) ;; *) exit 0 ;; esac
for address in $NEW_PEERS; do
  device=$(ip -o route get "$address" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
  case $address in *:*) headers=48 ;; *) headers=28 ;; esac
  length=$(($(cat "/sys/class/net/$device/mtu" 2>/dev/null || echo 0) - headers))
  [ "$device" != lo ] && [ "$length" -gt 0 ] && ping -q -c 1 -W 2 "$address" >/dev/null 2>&1 || continue
  large() { ping -q -M do -c 1 -W 2 -s "$length" "$address" >/dev/null 2>&1; }
  large || large || echo "narrow $address $((length + headers))"
done
