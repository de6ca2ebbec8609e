#!/bin/sh
# machine.sh SECONDS [ADDRESS...]: prints a line for each observation: `clock` with the difference to the control machine's clock (SECONDS since
# 1970), `port` with each TCP port that something listens on, in hexadecimal, `node` where a kubelet has joined a cluster, `name` with the name in
# its certificate, `boolean` with each of BOOLEANS that SELinux enforces to be off, `firewall` with each that is active, and `silent` with each address
# that answers no ping.
echo "clock $(($(date +%s) - $1))"
shift
sed -nE 's/^ *[0-9]+: [0-9A-F]+:([0-9A-F]{4}) 0+:0000 0A .*/port \1/p' /proc/net/tcp /proc/net/tcp6 2>/dev/null
if [ -s /etc/kubernetes/kubelet.conf ]; then
  echo node
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
command -v ping >/dev/null || exit 0
for address; do
  ping -q -c 1 -W 2 "$address" >/dev/null 2>&1 || ping -q -c 1 -W 2 "$address" >/dev/null 2>&1 || echo "silent $address"
done
