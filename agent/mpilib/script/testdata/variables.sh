X=${NONE:-default}
./a $X ${X:+set} ${NONE:+not} ${HOME%/*} ${2}
read LINE
./b $LINE "$LINE"
for f in a b; do ./c $f; done
PATH=
./d "$PATH"
./e "$@" $# "${@:2}"
