#!/bin/sh
# foreign.sh ADMIN CONFIG: prints `foreign` if the kubeconfig CONFIG leads to a cluster that ADMIN does not lead to: one
# with another server and another authority. A change of one of them is a change of the same cluster.
[ -s "$1" ] && [ -s "$2" ] || exit 0
awk '
function cluster() {
    if (server != "" && first) { own[server]; own[authority] }
    if (server != "" && !first && !(server in own) && (authority == "" || !(authority in own))) foreign = 1
    server = authority = ""
}
FNR == 1 { cluster(); first = NR == 1; if (!first && $0 ~ /^ *[{]/) foreign = 1 }
/^ *- cluster:/ || /^[a-z]/ { cluster() }
{ sub(/^ *- */, "") }
$1 == "server:" { server = $2 }
$1 == "certificate-authority-data:" || $1 == "certificate-authority:" { authority = $2 }
END { cluster(); if (foreign) print "foreign" }' "$1" "$2"
