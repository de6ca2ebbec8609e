# Shared by the scripts that connect pods.

# Routes that the scripts set carry this number as their protocol.
protocol=157

# keep FAMILY RANGE...: removes their routes to other ranges than these
keep() {
    family=$1
    shift
    ip "$family" -o route show proto $protocol | while read -r range rest; do
        case " $* " in
            *" $range "*) ;;
            *) ip "$family" route delete "$range" proto $protocol ;;
        esac
    done
}

# rules PROGRAM PODS RULES: lets pods be forwarded, and sets these rules for what leaves the host
rules() {
    "$1-restore" -w --noflush <<END
*nat
:WINDLASS-PODS - [0:0]
$3
COMMIT
*filter
:WINDLASS-PODS - [0:0]
-A WINDLASS-PODS -s $2 -j ACCEPT
-A WINDLASS-PODS -d $2 -j ACCEPT
COMMIT
END
    "$1" -w -t nat -C POSTROUTING -j WINDLASS-PODS 2>/dev/null || "$1" -w -t nat -A POSTROUTING -j WINDLASS-PODS
    "$1" -w -C FORWARD -j WINDLASS-PODS 2>/dev/null || "$1" -w -A FORWARD -j WINDLASS-PODS
}

# no_rules PROGRAM: removes the rules
no_rules() {
    for place in 'nat POSTROUTING' 'filter FORWARD'; do
        table=${place% *} chain=${place#* }
        "$1" -w -t "$table" -D "$chain" -j WINDLASS-PODS 2>/dev/null || true
        "$1" -w -t "$table" -F WINDLASS-PODS 2>/dev/null || continue
        "$1" -w -t "$table" -X WINDLASS-PODS
    done
}

# no_link NAME: removes the network interface
no_link() {
    ! ip link show "$1" >/dev/null 2>&1 || ip link delete "$1"
}
