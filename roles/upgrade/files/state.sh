#!/bin/sh
# state.sh CONFIG_DIR CERT_DIR ETCD_CERT_DIR BIN_DIR TARGET_FILE FOLDER...: prints a line for each observation of a node:
#   kubelet VERSION       the program on the disk
#   target VERSION        the release of an upgrade that is not complete
#   member begun          an upgrade of etcd's program that was interrupted
#   pod NAME VERSION      a static pod of the control plane
#   cert DAYS FILE        days until a certificate ends
#   authority DAYS FILE   likewise, of an authority
#   free MIB FOLDER       room on the file system of a folder, or of the nearest one above that exists
config=$1 certs=$2 etcd=$3 bin=$4 target=$5
shift 5

[ ! -x "$bin/kubelet" ] || "$bin/kubelet" --version 2>/dev/null | sed -n 's/^Kubernetes v\([0-9.]*\).*/kubelet \1/p'

sed -n 's/^\([0-9.]*\)$/target \1/p' "$target" 2>/dev/null | head -n 1
[ ! -e "$bin/.etcd.before-upgrade" ] || echo member begun

for pod in kube-apiserver kube-controller-manager kube-scheduler etcd; do
  sed -n "s/^ *image: *[^ ]*:v\{0,1\}\([^: ]*\)$/pod $pod \1/p" "$config/manifests/$pod.yaml" 2>/dev/null | head -n 1
done

now=$(date +%s)
for file in "$certs"/*.crt "$certs"/etcd/*.crt "$etcd"/*.pem /var/lib/kubelet/pki/kubelet-client-current.pem; do
  case $file in *-key.pem) continue ;; esac
  end=$(openssl x509 -noout -enddate -in "$file" 2>/dev/null) || continue
  end=$(date -d "${end#*=}" +%s) || continue
  case $file in */ca.crt | */*-ca.crt | */ca.pem) kind=authority ;; *) kind=cert ;; esac
  echo "$kind $(((end - now) / 86400)) $file"
done

for folder; do
  place=$folder
  while [ ! -d "$place" ]; do place=$(dirname "$place"); done
  df -Pm "$place" | awk -v folder="$folder" 'NR == 2 { print "free", $4, folder }'
done
