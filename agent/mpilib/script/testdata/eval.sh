CMD='./inner --flag'
eval "$CMD $1"
cd /data/$2
eval cd sub
./outer
conda activate sci && ./python
f() {
  ./in-a-function "$1"
}
f x
