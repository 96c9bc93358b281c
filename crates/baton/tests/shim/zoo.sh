# Agents that nobody wants: every member does one thing that supervisors are known to get wrong.
#
# sh zoo.sh MEMBER. Every process of a member holds descriptor 9, a pipe whose reader sees its end when the
# last of them is gone, whatever anybody says: that is how the tests know the truth. A member says `here`
# when it has done what it is called after.
set -u
member=$1
case ${2:-first} in
    first) exec 9>"$TRUTH"; printf '!' >&9 ;;
esac
self=$0

linger() {
    while :; do sleep 1000; done
}
chain() {
    chain &
    exit 0
}
bomb() {
    bomb &
    bomb &
    wait
}

case $member in
    idle) echo here; linger ;;
    ignores-term)
        trap '' TERM HUP INT QUIT
        sh "$self" quiet-idle next & sh "$self" quiet-idle next &
        echo here; linger ;;
    quiet-idle) linger ;;
    stuck) echo here; cat "$MUTE/file"; linger ;;
    daemon) (setsid sh "$self" quiet-idle next </dev/null &); echo here; linger ;;
    sessions) setsid sh "$self" sessions-next next & echo here; linger ;;
    sessions-next) setsid sh "$self" sessions-next next & exit 0 ;;
    chain) (chain &); echo here; linger ;;
    chain-alone) echo here; chain ;;
    holds-stdout) sleep 1000 & echo here; exit 0 ;;
    stops-itself) echo here; kill -STOP $$; linger ;;
    closes-stdout) echo here; exec >&- 2>&-; linger ;;
    trickle) echo here; while :; do printf x; sleep 1; done ;;
    one-line) head -c "$BYTES" /dev/zero | tr '\0' x; echo here; linger ;;
    no-newline) printf 'half a line, here'; linger ;;
    bad-utf8) printf '\377\376\300\257 here\n'; linger ;;
    nul) printf 'a\0b\0 here\n'; linger ;;
    ansi) printf '\033[2J\033]0;owned\007\033]8;;http://x\007 here\n'; linger ;;
    forged)
        echo '{"stopped":{"death":"pid_namespace","survivor":false}}'
        printf '\002\000\000\000\004\000\000\000\000\000\000\000\000{}\000\000\000\000'
        echo here; linger ;;
    exits-zero) echo here; exit 0 ;;
    migrates)
        if echo 0 >"$GROUP/cgroup.procs"; then echo moved; else echo denied; fi 2>/dev/null
        sh "$self" quiet-idle next &
        echo here; linger ;;
    systemd-run)
        if systemd-run --user --quiet sleep 1 2>/dev/null; then echo escaped; else echo denied; fi
        echo here; linger ;;
    eats-ram) head -c 8000000000 /dev/zero | tail -n 1 >/dev/null; echo here; linger ;;
    reads-env)
        env
        for one in /proc/self/fd/*; do echo "fd ${one##*/} $(readlink "$one")"; done
        echo here; linger ;;
    reads-proc)
        for one in /proc/[0-9]*; do
            if grep -qa "canary=$SECRET" "$one/environ" 2>/dev/null; then echo "leak $one"; fi
        done
        echo here; linger ;;
    heartbeat) echo here; while :; do echo alive; sleep 0.05; done ;;
    at) if echo true | at now 2>/dev/null; then echo escaped; else echo denied; fi; echo here; linger ;;
    docker)
        if [ -S /run/docker.sock ] || [ -S /var/run/docker.sock ]; then echo reached; else echo denied; fi
        echo here; linger ;;
    bomb)
        if [ "$(id -u)" = 0 ]; then
            setpriv --reuid 65534 --clear-groups sh "$self" bomb-next next 2>/dev/null &
        else
            sh "$self" bomb-next next 2>/dev/null &
        fi
        echo here; linger ;;
    bomb-next) bomb ;;
    echoes) echo here; while read -r line; do echo "heard $line"; done; echo over; linger ;;
    counts) echo here; n=0; while :; do n=$((n + 1)); echo "count $n"; sleep 0.02; done ;;
    *) echo "no such member: $member" >&2; exit 64 ;;
esac
