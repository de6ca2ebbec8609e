#!/bin/sh
# Prints a line for each observation of this host, KEY VALUE, and changes nothing. Settings are in the environment.
set -u
export LC_ALL=C ETCDCTL_API=3 ETCDCTL_CACERT ETCDCTL_CERT ETCDCTL_KEY

say() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr -c '[:print:]' ' ' | cut -c 1-300)"; }

# process KEY UNIT: missing, crashing, or the state of the unit as systemd has it
process() {
    state=missing
    ! systemctl cat "$2" >/dev/null 2>&1 || state=$(systemctl is-active "$2")
    [ "$(systemctl show --property=SubState --value "$2" 2>/dev/null)" != auto-restart ] || state=crashing
    say "$1.process" "$state"
    [ "$state" = active ] || [ "$state" = missing ] || say "$1.log" "$(last "$2")"
}

# last UNIT: the line of its last start that names an error, or else its last line
last() {
    invocation=$(systemctl show --property=InvocationID --value "$1")
    lines=$(journalctl "_SYSTEMD_INVOCATION_ID=$invocation" --lines 300 --output cat 2>/dev/null)
    printf '%s\n' "$lines" | grep -E ' [CF] \| |level":"(fatal|panic)|^F[0-9]|panic:' | tail -n 1 | grep . ||
        printf '%s\n' "$lines" | tail -n 1
}

# state CERTIFICATE KEY AUTHORITY: nothing, `broken` or `ended`
state() {
    if ! openssl verify -partial_chain -no_check_time -CAfile "$3" "$1" >/dev/null 2>&1; then
        echo broken
    elif [ -n "$2" ] &&
        [ "$(openssl x509 -noout -pubkey -in "$1")" != "$(openssl pkey -pubout -in "$2" 2>/dev/null)" ]; then
        echo broken
    elif ! openssl x509 -noout -checkend 0 -in "$1" >/dev/null 2>&1; then
        echo ended
    fi
}

# certificate NAME CERTIFICATE KEY AUTHORITY
certificate() {
    case $(state "$2" "$3" "$4") in
        broken) broken="$broken $1" ;;
        ended) ended="$ended $1" ;;
    esac
}

report() { # report PREFIX
    say "$1.broken" "${broken# }"
    say "$1.ended" "${ended# }"
}

# authorities CERTIFICATE KEY: the public keys of etcd's authority: one, unless certificate and key do not belong
# together
authorities() {
    say etcd-certificates.authorities "$(
        for key in "$(openssl x509 -noout -pubkey -in "$1" 2>/dev/null)" "$(openssl pkey -pubout -in "$2" 2>/dev/null)"
        do
            [ -z "$key" ] || printf '%s' "$key" | sha256sum | cut -c 1-16
        done | sort -u
    )"
}

# stale UNIT: whether its process started before its certificates were written
stale() {
    since=$(TZ=UTC systemctl show --property=ExecMainStartTimestamp --value "$1")
    [ -n "$since" ] && find "$ETCD_CERT_DIR/ca.pem" "$ETCD_CERT_DIR/member-$HOST.pem" -newermt "$since + 1 second" \
        2>/dev/null | grep -q .
}

etcd_certificates() {
    broken='' ended=''
    ca=$ETCD_CERT_DIR/ca.pem
    certificate ca.pem "$ca" "$([ -z "$ETCD" ] || echo "$ETCD_CERT_DIR/ca-key.pem")" "$ca"
    [ -z "$ETCD" ] || for name in "member-$HOST" "admin-$HOST"; do
        certificate "$name.pem" "$ETCD_CERT_DIR/$name.pem" "$ETCD_CERT_DIR/$name-key.pem" "$ca"
    done
    name=apiserver-etcd-client
    certificate $name.pem "$ETCD_CERT_DIR/$name.pem" "$ETCD_CERT_DIR/$name-key.pem" "$ca"
    report etcd-certificates
    authorities "$ca" "$ETCD_CERT_DIR/ca-key.pem"
}

# The same for a member in a pod.
pod_certificates() {
    broken='' ended=''
    ca=$KUBE_CERT_DIR/etcd/ca
    for name in etcd/server etcd/peer etcd/healthcheck-client apiserver-etcd-client; do
        certificate $name "$KUBE_CERT_DIR/$name.crt" "$KUBE_CERT_DIR/$name.key" "$ca.crt"
    done
    report etcd-certificates
    authorities "$ca.crt" "$ca.key"
}

# pod_log NAME STARTS: the log of the last starts of a static pod. Older logs belong to another failure.
pod_log() {
    find /var/log/pods -path "*/kube-system_$1-*/$1/*.log" -mmin -10 -printf '%T@ %p\n' 2>/dev/null |
        sort -n | tail -n "$2" | cut -d' ' -f2 | while read -r log; do tail -n 400 "$log"; done |
        sed 's/^[^ ]* std[a-z]* [A-Z] //; s/^{"log":"//'
}

# pod CLUSTER REVISION: the state of the member in a pod: active, crashing, waiting for kubelet, or inactive, which
# means that nothing would start it
pod() {
    manifest=$KUBE_MANIFEST_DIR/etcd.yaml
    [ -e "$manifest" ] || say "$1.manifest" missing
    ! grep -qs -- --force-new-cluster "$manifest" || say "$1.forced" yes
    running=$(pgrep -o --ns $$ --nslist net -f -- "$ETCD_POD_PROCESS")
    # A running container keeps the folder of its certificates, also if another one has taken its place.
    [ -z "$running" ] || [ "/proc/$running/root$KUBE_CERT_DIR/etcd" -ef "$KUBE_CERT_DIR/etcd" ] || say "$1.detached" yes
    if [ -z "$running" ] && { [ ! -e "$manifest" ] || [ "$(systemctl is-active kubelet.service)" != active ]; }; then
        say "$1.process" inactive
        return
    fi
    # A member that fails at each start may run right now. kubelet also ends one that does not answer, although the
    # member has not failed.
    fatal=$([ -n "$2" ] || pod_log etcd 2 |
        grep -E ' [CF] \| |level":"(fatal|panic)|panic:|been permanently removed' | tail -n 1)
    [ -z "$fatal" ] || say "$1.log" "$fatal"
    say "$1.process" "$(if [ -n "$fatal" ]; then echo crashing; elif [ -n "$running" ]; then echo active; else
        echo waiting; fi)"
}

member() { # member CLUSTER PORT DATA
    data=no
    [ ! -d "$3/member/snap" ] || [ ! -d "$3/member/wal" ] || data=yes
    say "$1.data" $data
    export ETCDCTL_ENDPOINTS="https://127.0.0.1:$2"
    # Answered by the member alone, also without a majority.
    answer=$("$BIN_DIR/etcdctl" --command-timeout=5s endpoint status --write-out=json 2>/dev/null)
    field() { printf '%s' "$answer" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
    if [ "$ETCD_KIND" = host ]; then
        process "$1" "$1.service"
        ! stale "$1.service" || say "$1.stale" yes
        [ ! -e "/run/systemd/system/$1.service.d/recover.conf" ] || say "$1.forced" yes
    else
        pod "$1" "$(field revision)"
    fi
    [ -n "$(field revision)" ] || return 0
    say "$1.answers" yes
    say "$1.revision" "$(field revision)"
    say "$1.index" "$(field raftIndex)"
    say "$1.size" "$(field dbSize)"
    say "$1.used" "$(field dbSizeInUse)"
    [ "$(field leader)" != "$(field member_id)" ] || say "$1.leads" yes
    alarms=$(printf '%s' "$answer" | grep -o 'alarm:[A-Z]*' | cut -d: -f2 | sort -u | tr '\n' ' ')
    say "$1.alarms" "${alarms% }"
    say "$1.quota" "$(curl -s -m 5 --cacert "$ETCDCTL_CACERT" --cert "$ETCDCTL_CERT" --key "$ETCDCTL_KEY" \
        "$ETCDCTL_ENDPOINTS/metrics" | awk '$1 == "etcd_server_quota_backend_bytes" { printf "%.0f", $2 }')"
    # Needs a majority.
    "$BIN_DIR/etcdctl" --command-timeout=5s get / --limit=1 --keys-only >/dev/null 2>&1 || return 0
    say "$1.majority" yes
    # A member in a pod that has lost its data may have started a cluster of its own.
    [ "$ETCD_KIND" != host ] || return 0
    known=$("$BIN_DIR/etcdctl" --command-timeout=5s member list 2>/dev/null | cut -d, -f4- | tr , ' ')
    strangers=
    for entry in $ETCD_PEERS; do
        printf '%s ' "${known:-${entry#*=}}" | tr '\n' ' ' | grep -qF -- "${entry#*=} " ||
            strangers="$strangers ${entry%%=*}"
    done
    [ -z "$strangers" ] || say "$1.strangers" "${strangers# }"
}

kubeconfig() { # kubeconfig NAME: its client certificate
    file=$KUBE_CONFIG_DIR/$1.conf work=$(mktemp -d)
    for field in certificate key; do
        sed -n "s/^ *client-$field-data: *//p" "$file" 2>/dev/null | base64 -d >"$work/$field" 2>/dev/null
    done
    certificate "$1.conf" "$work/certificate" "$work/key" "$KUBE_CERT_DIR/ca.crt"
    rm -rf "$work"
}

certificates() {
    broken='' ended='' lacking=''
    for name in ca front-proxy-ca $([ "$ETCD_KIND" = host ] || echo etcd/ca) sa; do
        openssl pkey -noout -in "$KUBE_CERT_DIR/$name.key" >/dev/null 2>&1 || lacking="$lacking $name.key"
        [ $name = sa ] || openssl x509 -noout -in "$KUBE_CERT_DIR/$name.crt" >/dev/null 2>&1 ||
            lacking="$lacking $name.crt"
    done
    openssl pkey -pubin -noout -in "$KUBE_CERT_DIR/sa.pub" >/dev/null 2>&1 || lacking="$lacking sa.pub"
    say certificates.lacking "${lacking# }"
    for name in apiserver apiserver-kubelet-client front-proxy-client; do
        authority=ca
        [ $name != front-proxy-client ] || authority=front-proxy-ca
        certificate $name "$KUBE_CERT_DIR/$name.crt" "$KUBE_CERT_DIR/$name.key" "$KUBE_CERT_DIR/$authority.crt"
    done
    for name in admin controller-manager scheduler; do kubeconfig $name; done
    report certificates
}

# flags FILE: the flags in a manifest, one a line
flags() { sed -n "s/^ *- \(--.*\)$/\1/p" "$1" | sort; }

manifest() { # manifest PROGRAM: present, missing or damaged
    [ -e "$KUBE_MANIFEST_DIR/$1.yaml" ] || { echo missing; return; }
    for line in '^kind: Pod' "^ *- $1\$" '^ *image: .' '^    name:' '^status:'; do
        grep -q -- "$line" "$KUBE_MANIFEST_DIR/$1.yaml" || { echo damaged; return; }
    done
    echo present
}

# kubeadm writes the manifests that the inventory wants into a file system that only it sees.
wanted() {
    work=$(mktemp -d)
    cat >"$work/config.yaml"
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount sh -c 'mount -t tmpfs tmpfs "$1" &&
        "$2/kubeadm" init phase control-plane all --config "$3/config.yaml" && cp "$1"/*.yaml "$3"' \
        sh "$KUBE_MANIFEST_DIR" "$BIN_DIR" "$work" >/dev/null 2>&1
    echo "$work"
}

control_plane() {
    serves=no
    [ "$(curl -sk -m 5 "https://$API_SERVER/readyz")" != ok ] || serves=yes
    say api.serves $serves
    work=$(wanted)
    for program in kube-apiserver kube-controller-manager kube-scheduler; do
        key=${program#kube-}
        say "$key.manifest" "$(manifest $program)"
        # Names of processes have at most 15 characters.
        say "$key.runs" "$(if pgrep -x "$(printf '%.15s' $program)" >/dev/null; then echo yes; else echo no; fi)"
        if [ ! -s "$work/$program.yaml" ] || [ ! -e "$KUBE_MANIFEST_DIR/$program.yaml" ]; then continue; fi
        flags "$work/$program.yaml" >"$work/wanted"
        flags "$KUBE_MANIFEST_DIR/$program.yaml" >"$work/has"
        say "$key.extra" "$(comm -13 "$work/wanted" "$work/has" | tr '\n' ' ')"
        say "$key.absent" "$(comm -23 "$work/wanted" "$work/has" | tr '\n' ' ')"
        cmp -s "$work/$program.yaml" "$KUBE_MANIFEST_DIR/$program.yaml" || say "$key.differs" yes
    done
    if [ $serves = no ]; then
        lines=$(pod_log kube-apiserver 1)
        line=$(printf '%s\n' "$lines" | grep -E '[Ee]rror:|^F[0-9]{4}|panic:|unknown flag|invalid argument' | tail -n 1)
        [ -n "$line" ] || line=$(printf '%s\n' "$lines" | tail -n 1)
        say api.log "$line"
        flag=$(printf '%s' "$line" | grep -o -- '--[a-z][a-z0-9-]*' | head -n 1)
        [ -z "$flag" ] || [ ! -s "$work/kube-apiserver.yaml" ] ||
            ! flags "$work/kube-apiserver.yaml" | grep -q -- "^$flag\(=\|$\)" ||
            say api.inventory_flag "${flag#--}"
    fi
    rm -rf "$work"
}

for entry in $ETCD; do
    rest=${entry#*=}
    member "${entry%%=*}" "${rest%%=*}" "${rest#*=}"
done
if [ "$ETCD_KIND" != host ]; then
    [ -z "$PLANE" ] || pod_certificates
elif [ -n "$ETCD$PLANE" ]; then
    etcd_certificates
fi
[ -z "$NODE" ] || {
    process runtime "$RUNTIME"
    process kubelet kubelet.service
    broken='' ended=''
    # A kubelet that has not joined yet has none, and others have theirs within kubelet.conf.
    ! grep -qs kubelet-client-current "$KUBE_CONFIG_DIR/kubelet.conf" ||
        certificate kubelet-client /var/lib/kubelet/pki/kubelet-client-current.pem \
            /var/lib/kubelet/pki/kubelet-client-current.pem "$KUBE_CERT_DIR/ca.crt"
    report kubelet-certificates
}
[ -z "$PLANE" ] || {
    certificates
    control_plane
}
say "done" yes
