# Ends the PostgreSQL in ./data when its owner is gone. Its input is a pipe that the owner holds open and writes the
# server's pid to: "soon" before there is one, "none" when there is none any more. The end of the pipe is the end of
# the owner, even after kill -9.
#
# $1: the signals to try, in this order   $2: kept or throwaway   $3: this folder   $4: the socket's folder
trap '' HUP INT QUIT TERM

pid=none
while read -r line; do pid=$line; done

read_first() { first=; { read -r first <data/postmaster.pid; } 2>/dev/null; }
# The pid alone would not do: it may be another process by now.
running() { read_first; [ "$first" = "$pid" ] && kill -0 "$pid" 2>/dev/null; }
# Started a moment ago, and its pid file is still to come.
starting() { read_first; [ -z "$first" ] && { [ "$pid" = soon ] || kill -0 "$pid" 2>/dev/null; }; }

tries=50
while [ "$pid" != none ] && starting && [ $tries -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
[ "$pid" = soon ] && pid=${first:-none}

for signal in $1; do
    [ "$pid" != none ] && running || break
    kill -CONT "$pid"
    kill -"$signal" "$pid"
    tries=100
    while running && [ $tries -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
done

if [ "$2" = throwaway ]; then
    # By name, so that nothing goes that we did not make; the lock last, because it keeps others out.
    rm -rf data data.new-* password log "$4"
    rm -f lock
    cd / && rmdir "$3"
fi
