# repeated.sh <times> <command>...: fails when the command does so once.
times=$1
shift
i=0
while [ "$i" -lt "$times" ]; do
  i=$((i + 1))
  "$@" || { code=$?; echo "run $i of $times: exit code $code"; exit 1; }
done
