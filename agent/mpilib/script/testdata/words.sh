./plain 'a b' "c $HOME" d\ e "" $UNSET "$UNSET"
./joined x"y"'z'$HOME
A=1 B="two words" ./with $A
./unknown $(date) $((1+2)) x$(date)
./redirected >out 2>&1 <in &>all
./first; ./second && ./third || ./fourth | ./fifth &
(./inside)
./cut "no end
