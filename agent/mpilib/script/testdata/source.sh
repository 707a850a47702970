. ./env.sh
solver $FROM
$(which solver) by its path
source activate sci
solver again
