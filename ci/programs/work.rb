h = {}
300000.times { |i| h[i % 5000] = "x" * (i % 700) }
threads = 4.times.map { |s| Thread.new { 20000.times.sum { |i| ("y" * ((i * 31 + s) % 400)).reverse.size } } }
puts h.values.sum(&:size), threads.map(&:value).inspect
GC.start
puts IO.popen("echo child").read
puts Process.wait2(fork { exit!(7) })[1].exitstatus
