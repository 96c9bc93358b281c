# Keeps one throw-away cluster for whoever started this, and takes everything away with it.
#
# $1 the folder of the cluster, $2 where Postgres' programs are, $3 the server's options, $4 either
# `own`: one process has the cluster to itself, and says through the input what is to be done;
# or `shared`: the input is a file that everybody locks who uses the cluster.
#
# It belongs to no group of its starter's, so that a kill of the whole group leaves it alive: that
# is when it is needed.
home=$1 programs=$2 options=$3 whose=$4

trap : HUP INT TERM
trap '' PIPE
cd / || exit 1

start() {
    "$programs/pg_ctl" start -D "$home/data" -w -s -t 120 -l "$home/log" -o "$options" \
        </dev/null >/dev/null 2>&1
}

stop() {
    "$programs/pg_ctl" stop -D "$home/data" -m "$1" -w -s -t 120 </dev/null >/dev/null 2>&1
}

remove() {
    stop immediate
    rm -rf "$home"
    exit 0
}

told() {
    if "$@"; then echo done; else echo failed; fi
}

nobody_has_it() {
    flock --nonblock --exclusive 0
}

# It is there once it was copied. Whoever copies holds the lock, unless it was killed.
until_it_is_there() {
    until [ -e "$home/copied" ]; do
        sleep 0.05
        nobody_has_it && [ ! -e "$home/copied" ] && remove
        flock --unlock 0
    done
}

# Nobody may have it for so many looks in a row, two seconds apart. Whoever comes while it is taken
# away waits for the lock, and then starts another.
while_it_is_used() {
    idle=0
    while [ "$idle" -lt 5 ]; do
        flock --unlock 0
        sleep 2
        if nobody_has_it; then idle=$((idle + 1)); else idle=0; fi
    done
}

if [ "$whose" = shared ]; then
    until_it_is_there
    told start
    exec >/dev/null
    while_it_is_used
    remove
fi

while read -r word; do
    case $word in
        start) told start ;;
        crash) told stop immediate ;;
        stop) told stop fast ;;
    esac
done
remove
