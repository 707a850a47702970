./before
if [ a ]; then
  ./cut $(which