# Programs that read, work and write.
# shellcheck shell=bash
check ls ls -lR /usr/include/linux
check git git log --stat -p -n 20
check "sort, several threads" sort -R --random-source=/dev/zero --parallel=4 "$dir/long.c"
check "tar and gzip" tar czf - -C / usr/include/linux --sort=name
check openssl openssl dgst -sha256 "$dir/long.c"
check -i "$pieces/work.sql" sqlite3 sqlite3 :memory:
check z3 z3 "$pieces/work.smt2"
check ghostscript gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=ppmraw -r100 -sOutputFile=- "$pieces/work.ps"
check -p rsync -n rsync rsync "$pieces/rsync.sh"
check -p tmux -n tmux tmux "$pieces/tmux.sh"
check -p vim -n vim vim "$pieces/vim.sh" "$dir/long.c"
check -s "ffmpeg, threads" ffmpeg -nostdin -v error -f lavfi -i testsrc=duration=4:size=640x360:rate=25 -f lavfi -i \
    sine=duration=4 -filter_complex_threads 2 -vf 'scale=320:180,hqdn3d' -c:v mpeg4 -threads 2 -c:a aac -flags +bitexact \
    -fflags +bitexact -f framemd5 -
check -s imagemagick /usr/bin/convert-im6.q16 -size 600x400 gradient:red-blue -seed 1 -swirl 90 -blur 0x4 -rotate 30 \
    -resize 400x400 -colors 64 ppm:-
