my %h; srand(1); $h{int(rand(50000))} .= "x" x rand(200) for 1 .. 300000; my $n = 0; $n += length for values %h; print "$n\n";
