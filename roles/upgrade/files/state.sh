#!/bin/sh
# state.sh CONFIG_DIR CERT_DIR ETCD_CERT_DIR BIN_DIR TARGET_FILE FOLDER...: prints a line for each observation of a
# node:
#   kubelet VERSION       the program on the disk
#   took SECONDS          time of the last upgrade of the node
#   target VERSION        the release of an upgrade that is not complete
#   from STATE            what the cluster ran when that upgrade saved its state
#   member begun          an upgrade of etcd's program that was interrupted
#   pod NAME VERSION      a static pod of the control plane
#   cert DAYS FILE        full days until a certificate ends, also one inside a kubeconfig; negative after its end
#   authority DAYS FILE   likewise, of an authority
#   free MIB FOLDER       room on the file system of a folder, or of the nearest one above that exists
config=$1 certs=$2 etcd=$3 bin=$4 target=$5
shift 5

[ ! -x "$bin/kubelet" ] || "$bin/kubelet" --version 2>/dev/null | sed -n 's/^Kubernetes v\([0-9.]*\).*/kubelet \1/p'

# awk ends every line, also where a file does not.
awk 'NR == 1 && /^[0-9]+$/ && length < 10 { print "took", $0 }' "$config/upgrade-seconds" 2>/dev/null
awk 'NR == 1 && /^[0-9.]+$/ { print "target", $0 } NR == 2 && /^[0-9.,\/-]+$/ { print "from", $0 }' "$target" \
    2>/dev/null
[ ! -e "$bin/.etcd.before-upgrade" ] || echo member begun

for pod in kube-apiserver kube-controller-manager kube-scheduler etcd; do
  sed -n "s/^ *image: *[^ ]*:v\{0,1\}\([^: ]*\)$/pod $pod \1/p" "$config/manifests/$pod.yaml" 2>/dev/null | head -n 1
done

# Prints the certificate of a file, or that inside a kubeconfig.
certificate() {
  case $1 in
    *.conf) sed -n 's/^ *client-certificate-data: *//p' "$1" 2>/dev/null | head -n 1 | base64 -d 2>/dev/null ;;
    *) cat "$1" 2>/dev/null ;;
  esac
}

now=$(date +%s)
for file in "$certs"/*.crt "$certs"/etcd/*.crt "$etcd"/*.pem /var/lib/kubelet/pki/kubelet-client-current.pem \
  /var/lib/kubelet/pki/kubelet-server-current.pem "$config"/admin.conf "$config"/super-admin.conf \
  "$config"/controller-manager.conf "$config"/scheduler.conf; do
  case $file in *-key.pem) continue ;; esac
  end=$(certificate "$file" | openssl x509 -noout -enddate 2>/dev/null) || continue
  end=$(date -d "${end#*=}" +%s) || continue
  case $file in */ca.crt | */*-ca.crt | */ca.pem) kind=authority ;; *) kind=cert ;; esac
  # Division alone rounds towards zero: a certificate that ended an hour ago would have 0 days left.
  echo "$kind $(((end - now - (end < now ? 86399 : 0)) / 86400)) $file"
done

for folder; do
  place=$folder
  while [ ! -d "$place" ]; do place=$(dirname "$place"); done
  df -Pm "$place" | awk -v folder="$folder" 'NR == 2 { print "free", $4, folder }'
done
